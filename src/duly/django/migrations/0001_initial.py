from django.db import migrations

from duly.django.schema import ApplySchema

Migration = type(
    "Migration",
    (migrations.Migration,),
    {"__module__": __name__, "initial": True, "dependencies": [], "operations": [ApplySchema(1)]},
)
