"""Which SQL texts begin or end a transaction, wherever in the text they do so."""

import pytest

from integration.runs.statements import ends_transaction

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("sql", "command"),
    [
        ("COMMIT", "COMMIT"),
        ("commit;", "COMMIT"),
        ("\n\t Commit and chain", "COMMIT"),
        ("COMMIT PREPARED 'x'", "COMMIT"),
        ("END", "END"),
        ("END WORK", "END"),
        ("ABORT", "ABORT"),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE", "BEGIN"),
        ("START TRANSACTION READ WRITE", "START TRANSACTION"),
        ("start\n--\ntransaction", "START TRANSACTION"),
        ("ROLLBACK", "ROLLBACK"),
        ("ROLLBACK WORK", "ROLLBACK"),
        ("rollback transaction and chain", "ROLLBACK"),
        ("ROLLBACK PREPARED 'x'", "ROLLBACK"),
        ("PREPARE TRANSACTION 'x'", "PREPARE TRANSACTION"),
        ("-- a remark\nCOMMIT", "COMMIT"),
        ("/* a /* nested */ remark */ COMMIT", "COMMIT"),
        ("/**/COMMIT/**/", "COMMIT"),
        ("SELECT 1; COMMIT", "COMMIT"),
        (";;COMMIT", "COMMIT"),
        ("SELECT 'it''s'; COMMIT", "COMMIT"),
        ("SELECT '\\'; COMMIT; --'", "COMMIT"),
        ("SELECT E'\\''; COMMIT", "COMMIT"),
        ('SELECT 1 AS "a""b"; COMMIT', "COMMIT"),
        ("SELECT $$ ' $$; COMMIT", "COMMIT"),
        ("SELECT $a$ $$ ' $b$ $a$; COMMIT", "COMMIT"),
        ("SELECT a$b$c; COMMIT; SELECT a$b$c", "COMMIT"),
        ("INSERT INTO t VALUES (%s, %s); COMMIT", "COMMIT"),
        ("SELECT 1 -- ;\n; ROLLBACK TO a; END", "END"),
    ],
)
def test_what_begins_or_ends_a_transaction_is_found(sql, command):
    assert ends_transaction(sql) == command


@pytest.mark.parametrize(
    "sql",
    [
        "",
        ";",
        "SELECT 1",
        "SAVEPOINT a",
        "RELEASE SAVEPOINT a",
        'ROLLBACK TO SAVEPOINT "s140_x1"',
        "ROLLBACK WORK TO a",
        "rollback /* the inner one */ transaction to savepoint a",
        "SELECT 'x; COMMIT'",
        "SELECT E'x\\'; COMMIT; --'",
        'SELECT 1 AS "x; COMMIT"',
        "SELECT 1 -- ; COMMIT",
        "SELECT 1 /* ; /* COMMIT; */ ; COMMIT */",
        "DO $$ BEGIN PERFORM 1; END $$",
        "DO $body$ BEGIN PERFORM '$$'; END $body$",
        "SELECT CASE WHEN true THEN 1 END",
        "PREPARE plan AS SELECT 1",
        "UPDATE t SET start = 1, commit = 2",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "(SELECT 1)",
        '"commit"',
        "'an open quote; COMMIT",
        "/* an open comment; COMMIT",
    ],
)
def test_everything_else_is_let_through(sql):
    assert ends_transaction(sql) == ""
