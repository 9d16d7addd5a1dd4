"""An order and the job that confirms it: both are there, or neither is.

``connection=`` takes what you have: a connection of psycopg, asyncpg or sqlite3, a session of
SQLAlchemy, a connection of Django. The job becomes visible when your transaction commits. The
tables of duly are in the same database as yours.
"""

from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from duly import Duly

duly = Duly()  # DULY_URL=postgresql://…


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "shop_order"

    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]


@duly.task
async def confirm(order: int) -> str:
    return f"order {order} is confirmed"


def buy(session: Session, item: str) -> int:
    order = Order(item=item)
    session.add(order)
    session.flush()  # it has its number now
    confirm.using(connection=session).enqueue(order.id)
    return order.id


async def buy_on_a_loop(session: AsyncSession, item: str) -> int:
    order = Order(item=item)
    session.add(order)
    await session.flush()
    await confirm.using(connection=session).aenqueue(order.id)
    return order.id
