#!/bin/sh
# A worker in another language, over HTTP: here it is sh, with curl and jq.
#
#   DULY_URL=http://127.0.0.1:8400 DULY_TOKEN=duly_… sh worker.sh tasks/
#
# Each program in the folder is a task of its name. It is given the arguments as JSON on standard
# input. What it prints is the result, as JSON; what it says on standard error is the log, where
# "progress: 40 half of it" says how far it is. Exit code 0 is success, 65 that trying again is no
# use, and any other that it may be. It runs one job at a time, and stops on SIGTERM or Ctrl-C.
set -eu

programs=${1:?the folder of the programs}
: "${DULY_URL:?where duly web listens}" "${DULY_TOKEN:?of the operator role}"
queues=${QUEUES:-default}
lease=${LEASE:-60} # seconds that it may be silent before others get its job

umask 077
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
# In a file: whatever is on a command line can be read by everybody on the machine.
printf 'Authorization: Bearer %s\n' "$DULY_TOKEN" >"$here/headers"
unset DULY_TOKEN

# ask WHAT BODY: the answer is in $here/WHAT. What fails on the way is asked again: whatever is said
# twice counts once. In the background, so that a signal need not wait for the answer.
ask() {
    printf '%s' "$2" >"$here/$1.body"
    curl --silent --show-error --retry 6 --retry-connrefused --max-time 60 \
        --header "@$here/headers" --header 'Content-Type: application/json' \
        --data-binary "@$here/$1.body" --output "$here/$1" --write-out '%{http_code}' \
        "$DULY_URL/api/v1/work/$1" >"$here/$1.code" &
    wait $! && [ "$(cat "$here/$1.code")" -lt 300 ]
}

enlist() {
    tasks=$(ls "$programs" | jq -R . | jq -sc .)
    ask register "$(jq -nc --argjson tasks "$tasks" --arg queues "$queues" --arg lease "${lease}s" \
        '{name: "sh", tasks: $tasks, queues: ($queues / ","), lease: $lease}')" || return 1
    worker=$(jq .worker "$here/register")
    keep_alive &
    heart=$!
    echo "worker $worker" >&2
}

# Renew three times in a lease, and stop the job when it is asked to end, or when the lease may be
# over: it is somebody else's then. The time is counted from when a renewal was sent.
keep_alive() {
    renewed=$(date +%s)
    while sleep $((lease / 3)) && kill -0 $$ 2>/dev/null; do
        sent=$(date +%s)
        if ask renew "{\"worker\": $worker}"; then
            renewed=$sent
            id=$(cat "$here/running" 2>/dev/null) || continue
            if jq -e --arg id "$id" '.cancel | has($id)' "$here/renew" >/dev/null; then
                stop_job cancelled
            fi
        elif is_dead || [ $((sent - renewed)) -ge $((lease * 2 / 3)) ]; then
            stop_job lost
            return
        fi
    done
}

is_dead() {
    [ "$(cat "$here/renew.code")" = 409 ]
}

stop_job() {
    echo "$1" >"$here/why"
    kill "$(cat "$here/pid" 2>/dev/null)" 2>/dev/null || true
}

# One job, or none within 20 seconds. False if this worker is dead.
work() {
    if ! ask claim "{\"worker\": $worker, \"limit\": 1, \"wait\": \"20s\"}"; then
        # Perhaps there was a job in an answer that was lost.
        ask held "{\"worker\": $worker}" && cp "$here/held" "$here/claim" || return 1
    fi
    case $(jq -r .order "$here/claim") in stop | kill) leave ;; esac
    job=$(jq -c '.jobs[0] // empty' "$here/claim")
    [ -z "$job" ] || run
}

run() {
    about=$(printf '%s' "$job" | jq -c "{worker: $worker, id, fence}")
    task=$(printf '%s' "$job" | jq -r .task)
    rm -f "$here/why" "$here/said" && mkfifo "$here/said"
    listen <"$here/said" &
    ear=$!
    printf '%s' "$job" | jq .args >"$here/args"
    "$programs/$task" <"$here/args" >"$here/result" 2>"$here/said" &
    echo $! >"$here/pid"
    printf '%s' "$job" | jq .id >"$here/running"
    limit=$(printf '%s' "$job" | jq -r '.timeout_seconds // empty')
    [ -z "$limit" ] || { expire_after "$limit" & }
    clock=$!
    code=0 && wait "$(cat "$here/pid")" || code=$?
    [ -z "$limit" ] || kill "$clock" 2>/dev/null || true
    # What a stopped program has left running may hold the line for ever.
    [ ! -e "$here/why" ] || kill $ear 2>/dev/null || true
    wait $ear || true
    rm -f "$here/running" "$here/pid"
    finish "$(cat "$here/why" 2>/dev/null || echo $code)"
}

# The time-out of a job is for its worker to keep.
expire_after() {
    sleep "$1" &
    trap 'kill $!' TERM
    wait $! && stop_job timed_out
}

listen() {
    while IFS= read -r line; do
        case $line in
        'progress: '*)
            said=${line#progress: }
            ask progress "$(printf '%s' "$about" |
                jq -c --arg percent "${said%% *}" --arg message "${said#* }" \
                    '. + {percent: ($percent | tonumber), message: $message}')" || true
            ;;
        *)
            ask log "$(printf '%s' "$about" |
                jq -c --arg text "$line" '. + {lines: [{text: $text}]}')" || true
            ;;
        esac
    done
}

# What became of the job, by the exit code of its program, or by why it was stopped.
finish() {
    one=$(printf '%s' "$about" | jq -c 'del(.worker)')
    case $1 in
    0) kind=done more=$(jq -sc '{result: .[0]}' "$here/result" || echo '{}') ;;
    65) kind=failed more='{"error": "Permanent: exit code 65", "retry": false}' ;;
    cancelled | given_back) kind=$1 more='{}' ;;
    timed_out) kind=failed more='{"error": "TimedOut: it ran longer than it may"}' ;;
    lost) return ;; # it is somebody else's by now, or will be
    *) kind=failed more="{\"error\": \"ExitCode: $1\"}" ;;
    esac
    ask finish "$(jq -nc "{worker: $worker, $kind: [$one + $more]}")" &&
        jq -r '.refused[].why' "$here/finish" >&2
}

# Give the job back, if one runs, so that another worker need not wait for the end of the lease.
leave() {
    trap '' TERM INT
    kill "$heart" 2>/dev/null || true
    if [ -e "$here/running" ]; then
        stop_job given_back
        finish given_back
    fi
    ask end "{\"worker\": $worker}" || true
    exit 0
}

trap leave TERM INT
while enlist; do
    while work; do :; done
    kill "$heart" 2>/dev/null || true
done
echo "$(cat "$here/register")" >&2
exit 1
