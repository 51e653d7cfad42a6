"""A database that checks fences. SQLite and PostgreSQL understand the same statements."""

import sqlite3


class StaleFence(Exception):
    """A later holder of the lock was here."""


def add_to_balance(database: sqlite3.Connection, account: int, amount: int, fence: int) -> None:
    """Changes one row that remembers the largest fence it has seen."""
    with database:
        changed = database.execute(
            "UPDATE account SET balance = balance + :amount, fence = :fence WHERE id = :account AND fence <= :fence",
            {"account": account, "amount": amount, "fence": fence},
        ).rowcount
    if changed != 1:
        raise StaleFence(f"account {account} has seen a larger fence than {fence}")


def transfer(database: sqlite3.Connection, lock: str, fence: int, source: int, target: int, amount: int) -> None:
    """Changes several rows that one lock protects, in one transaction. A row per lock remembers the largest fence."""
    with database:
        passed = database.execute(
            "INSERT INTO fences (lock, fence) VALUES (:lock, :fence)"
            " ON CONFLICT (lock) DO UPDATE SET fence = excluded.fence WHERE fences.fence <= excluded.fence",
            {"lock": lock, "fence": fence},
        ).rowcount
        if passed != 1:
            raise StaleFence(f"{lock} has seen a larger fence than {fence}")
        database.execute("UPDATE account SET balance = balance - ? WHERE id = ?", (amount, source))
        database.execute("UPDATE account SET balance = balance + ? WHERE id = ?", (amount, target))
