// The official client against a server.
//
//   node tests/clients/libsql.test.mjs                                  the development database, just for this
//   node tests/clients/libsql.test.mjs target/debug/sealpost            the same, of another build
//   node tests/clients/libsql.test.mjs http://127.0.0.1:8080 [TOKEN]    a server that runs already
//
// It asks for what an application asks for, through `@libsql/client`, so that the server is right in the eyes of a
// program that was not written for it. Every case has a table of its own, so that servers may be shared. A case that
// fails makes the exit code 1.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { after, test } from "node:test";

import { createClient } from "@libsql/client";

import { sealpostCommand } from "../../scripts/lib/paths.mjs";

const target = process.argv[2] ?? process.env.SEALPOST_CONTRACT_URL ?? sealpostCommand;
const url = /^https?:/.test(target) ? target : await start(target);
const authToken = process.argv[3];
const INTEGER_MAX = 2n ** 63n - 1n;
const INTEGER_MIN = -(2n ** 63n);

let tables = 0;

/** Starts `COMMAND database` on a temporary file and a free port, until the cases are done; gives its address. */
async function start(command) {
  const child = spawn(command, ["database", "--listen", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "inherit"] });
  after(() => child.kill());
  let told = "";
  for await (const chunk of child.stdout) {
    told += chunk;
    const found = /listening on (http:\S+)/.exec(told);
    if (found) {
      return found[1];
    }
  }
  throw new Error(`${command} ended before it listened`);
}

/** Runs a case with a client and the name of a fresh table. */
function contract(name, columns, run) {
  test(name, async () => {
    const client = createClient({ url, authToken, intMode: "bigint" });
    const table = `client_${process.pid}_${tables++}`;
    try {
      await client.execute(`create table ${table}(${columns})`);
      await run(client, table);
      await client.execute(`drop table ${table}`);
    } finally {
      client.close();
    }
  });
}

async function count(client, table) {
  return (await client.execute(`select count(*) as n from ${table}`)).rows[0].n;
}

/** Waits for a rejection with this code. */
function refused(promise, code) {
  return assert.rejects(promise, (error) => {
    assert.equal(error.code, code, error.message);
    return true;
  });
}

contract("execute", "id integer primary key, name text", async (client, table) => {
  const inserted = await client.execute({ sql: `insert into ${table}(name) values(?)`, args: ["Ada"] });
  assert.equal(inserted.rowsAffected, 1);
  assert.equal(inserted.lastInsertRowid, 1n);
  const { columns, rows } = await client.execute(`select id, name from ${table}`);
  assert.deepEqual(columns, ["id", "name"]);
  assert.equal(rows.length, 1);
  assert.deepEqual([rows[0].id, rows[0].name], [1n, "Ada"]);
  assert.equal((await client.execute(`update ${table} set name = 'x' where id = 9`)).rowsAffected, 0);
});

contract("named arguments", "a, b, c", async (client, table) => {
  await client.execute({ sql: `insert into ${table} values(:a, @b, $c)`, args: { a: 1n, b: "two", c: null } });
  const { rows } = await client.execute({ sql: `select * from ${table} where b = :b`, args: { b: "two" } });
  assert.deepEqual([rows[0].a, rows[0].b, rows[0].c], [1n, "two", null]);
});

contract("RETURNING", "id integer primary key, n int", async (client, table) => {
  const { rows, rowsAffected } = await client.execute(`insert into ${table}(n) values(5), (6) returning id, n`);
  assert.deepEqual(rows.map((row) => [row.id, row.n]), [[1n, 5n], [2n, 6n]]);
  assert.equal(rowsAffected, 2);
});

contract("a batch that fails in the middle leaves nothing", "n int unique", async (client, table) => {
  const insert = (n) => ({ sql: `insert into ${table} values(?)`, args: [n] });
  await assert.rejects(client.batch([insert(1), insert(1), insert(2)], "write"), (error) => {
    assert.equal(error.code, "SQLITE_CONSTRAINT", error.message);
    assert.equal(error.statementIndex, 1);
    return true;
  });
  assert.equal(await count(client, table), 0n);
  const results = await client.batch([insert(1), insert(2), `select sum(n) as s from ${table}`], "write");
  assert.equal(results[2].rows[0].s, 3n);
  assert.equal(await count(client, table), 2n);
});

contract("a read batch", "n", async (client, table) => {
  const [one, two] = await client.batch([`select count(*) as n from ${table}`, "select 2 as n"], "read");
  assert.deepEqual([one.rows[0].n, two.rows[0].n], [0n, 2n]);
});

contract("a transaction commits", "n", async (client, table) => {
  const transaction = await client.transaction("write");
  await transaction.execute(`insert into ${table} values(1)`);
  await transaction.batch([`insert into ${table} values(2)`, `insert into ${table} values(3)`]);
  assert.equal((await transaction.execute(`select count(*) as n from ${table}`)).rows[0].n, 3n);
  assert.equal(await count(client, table), 0n);
  await transaction.commit();
  assert.equal(await count(client, table), 3n);
  assert.equal(transaction.closed, true);
});

contract("a transaction rolls back", "n int unique", async (client, table) => {
  const transaction = await client.transaction("write");
  await transaction.execute(`insert into ${table} values(1)`);
  await refused(transaction.execute(`insert into ${table} values(1)`), "SQLITE_CONSTRAINT");
  await transaction.rollback();
  assert.equal(await count(client, table), 0n);
  const closed = await client.transaction("write");
  await closed.execute(`insert into ${table} values(1)`);
  closed.close();
  await client.execute(`insert into ${table} values(2)`);
  assert.equal(await count(client, table), 1n);
});

contract("integers of 64 bits", "n int", async (client, table) => {
  const numbers = [INTEGER_MAX, INTEGER_MIN, 2n ** 53n + 1n, -1n, 0n];
  for (const n of numbers) {
    await client.execute({ sql: `insert into ${table} values(?)`, args: [n] });
  }
  const { rows } = await client.execute(`select n from ${table} order by rowid`);
  assert.deepEqual(rows.map((row) => row.n), numbers);
  const { lastInsertRowid } = await client.execute({
    sql: `insert into ${table}(rowid, n) values(?, 1)`,
    args: [INTEGER_MAX],
  });
  assert.equal(lastInsertRowid, INTEGER_MAX);
});

contract("blobs, texts, floats and nulls", "v", async (client, table) => {
  const blob = Uint8Array.from({ length: 70_000 }, (_, index) => index % 256);
  const values = [blob, new Uint8Array(), "", "Grüße, 日本 📮 \"'\n", "a\0b", 0.1, -1.5e300, null];
  for (const value of values) {
    await client.execute({ sql: `insert into ${table} values(?)`, args: [value] });
  }
  const { rows } = await client.execute(`select v from ${table} order by rowid`);
  const read = rows.map(({ v }) => (v instanceof ArrayBuffer ? new Uint8Array(v) : v));
  assert.deepEqual(read, values);
});

contract("errors", "n int not null", async (client, table) => {
  await refused(client.execute("selec 1"), "SQL_PARSE_ERROR");
  await refused(client.execute(`insert into ${table} values(null)`), "SQLITE_CONSTRAINT");
  await refused(client.execute("select * from nowhere"), "SQLITE_UNKNOWN");
  await refused(client.execute({ sql: "select ?, ?", args: [1] }), "ARGS_INVALID");
});

contract("a script", "n", async (client, table) => {
  await client.executeMultiple(`
    insert into ${table} values(1);
    create trigger ${table}_t after insert on ${table} begin select ';'; end;
    insert into ${table} values(2); -- the end
  `);
  assert.equal(await count(client, table), 2n);
});

contract("a migration without foreign keys", "id integer primary key", async (client, table) => {
  await client.migrate([
    `create table ${table}_child(p int references ${table}(id))`,
    `insert into ${table}_child values(7)`,
  ]);
  assert.equal(await count(client, `${table}_child`), 1n);
  await refused(client.execute(`insert into ${table}_child values(8)`), "SQLITE_CONSTRAINT");
  await client.execute(`drop table ${table}_child`);
});

contract("twenty writers at once", "writer int, round int", async (client, table) => {
  const writers = Array.from({ length: 20 }, async (_, writer) => {
    for (let round = 0; round < 5; round++) {
      await client.batch([{ sql: `insert into ${table} values(?, ?)`, args: [writer, round] }], "write");
    }
  });
  await Promise.all(writers);
  assert.equal(await count(client, table), 100n);
});

contract("twenty transactions at once", "n int", async (client, table) => {
  await client.execute(`insert into ${table} values(0)`);
  const writers = Array.from({ length: 20 }, async () => {
    const transaction = await client.transaction("write");
    const { rows } = await transaction.execute(`select n from ${table}`);
    await transaction.execute({ sql: `update ${table} set n = ?`, args: [rows[0].n + 1n] });
    await transaction.commit();
  });
  await Promise.all(writers);
  assert.equal((await client.execute(`select n from ${table}`)).rows[0].n, 20n);
});

contract("a transaction that idles gives way to a writer", "who text", async (client, table) => {
  const idle = await client.transaction("write");
  await idle.execute(`insert into ${table} values('idle')`);
  // This one waits until the server takes the lock away from the other: five seconds.
  await client.execute(`insert into ${table} values('waiting')`);
  await refused(idle.execute(`insert into ${table} values('late')`), "TRANSACTION_TIMEOUT");
  idle.close();
  const { rows } = await client.execute(`select who from ${table}`);
  assert.deepEqual(rows.map((row) => row.who), ["waiting"]);
});
