"""A shop on FastAPI: orders and their jobs in one transaction, the dashboard under its own sign-in.

    pip install duly fastapi "sqlalchemy[asyncio]" aiosqlite itsdangerous
    uvicorn main:app

Open http://127.0.0.1:8000, sign in as ada, buy a book, then look at /duly. Programs send
``Authorization: Bearer key-of-the-robot``: a token of the shop's, not of duly's.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import Annotated

from fastapi import Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import HTTPConnection

from duly import Duly, User
from duly.fastapi import AsyncEnqueue, aenqueue_in

duly = Duly("shop.db")  # the shop's own database
sessions = async_sessionmaker(create_async_engine("sqlite+aiosqlite:///shop.db"))


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "shop_order"

    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]
    is_confirmed: Mapped[bool] = mapped_column(default=False)


@duly.task
async def confirm(order_id: int) -> str:
    async with sessions.begin() as session:
        order = await session.get_one(Order, order_id)
        order.is_confirmed = True
        return f"{order.item} is confirmed"


@duly.schedule("every 1h")
@duly.task
async def count_orders() -> int:
    async with sessions() as session:
        return len((await session.scalars(select(Order.id))).all())


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with duly.lifespan(app):  # a scheduler and a worker on this loop; the tables of duly
        async with sessions.kw["bind"].begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
        yield


async def get_session() -> AsyncIterator[AsyncSession]:
    async with sessions.begin() as session:
        yield session


# It commits before the response is sent: who reads "303" finds the order.
Session = Annotated[AsyncSession, Depends(get_session, scope="function")]
Enqueue = Annotated[AsyncEnqueue, Depends(aenqueue_in(Session))]
PEOPLE = {"ada": User("ada", "operator"), "bob": User("bob", "viewer")}
KEYS = {"key-of-the-robot": User("robot", "viewer")}


def who(request: HTTPConnection) -> User | None:
    """Say who uses the dashboard: the shop's people by its cookie, its programs by their keys."""
    key = request.headers.get("authorization", "").removeprefix("Bearer ")
    return KEYS.get(key) or PEOPLE.get(request.session.get("name", ""))


app = FastAPI(lifespan=lifespan)
app.add_middleware(SessionMiddleware, secret_key=token_hex())  # yours should outlive a restart
app.mount("/duly", duly.asgi(auth=who))


@app.get("/", response_class=HTMLResponse)
async def home(request: Request, session: Session) -> str:
    if request.session.get("name") not in PEOPLE:
        return page("".join(f'<a href="/sign-in/{name}">Sign in as {name}</a> ' for name in PEOPLE))
    orders = (await session.scalars(select(Order).order_by(Order.id))).all()
    told = [f"<li>{one.item}{': confirmed' if one.is_confirmed else ''}" for one in orders]
    return page(
        '<form action="/orders" method="post"><button>Buy a book</button></form>'
        f'<ul>{"".join(told)}</ul><a href="/duly/">Jobs</a>'
    )


@app.get("/sign-in/{name}")
async def sign_in(request: Request, name: str) -> RedirectResponse:
    request.session["name"] = name  # where a real shop asks for a password
    return RedirectResponse("/", status_code=303)


@app.post("/orders")
async def buy(session: Session, enqueue: Enqueue) -> RedirectResponse:
    order = Order(item="a book")
    session.add(order)
    await session.flush()  # it has its number now
    await enqueue(confirm, order.id)  # there if the session commits
    return RedirectResponse("/", status_code=303)


def page(text: str) -> str:
    return f"<!doctype html><title>Shop</title>{text}"
