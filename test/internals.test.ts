import {readFileSync} from 'node:fs';
import test, {type ExecutionContext} from 'ava';
import PostgresDialect from 'knex/lib/dialects/postgres/index.js';
import SqliteTransaction from 'knex/lib/dialects/sqlite3/execution/sqlite-transaction.js';
import SqliteDialect from 'knex/lib/dialects/sqlite3/index.js';
import {Context, filters, Liquid, Value} from 'liquidjs';
import pg from 'pg';
import {SMTPServer} from 'smtp-server';
import {SMTPConnection} from 'smtp-server/lib/smtp-connection';
import {SMTPStream} from 'smtp-server/lib/smtp-stream';
import sqlite from 'sqlite3';

/*
 * Some libraries are extended at places that they do not document. A patch release may change those, so each such library has an
 * exact version. Before you raise it, compare the places that are named here with their callers in src.
 */
const extended = ['knex', 'liquidjs', 'pg', 'smtp-server'];

type Versions = Readonly<Record<string, string>>;
type Manifest = {readonly dependencies: Versions; readonly devDependencies: Versions};

const read = (file: string) => JSON.parse(readFileSync(file, 'utf8'));

test('libraries whose internals are extended have exact versions, in the lock file too', t => {
	const {dependencies, devDependencies}: Manifest = read('package.json');
	const {packages}: {packages: Record<string, {readonly version: string} & Manifest>} = read('package-lock.json');
	const wanted = {...dependencies, ...devDependencies};
	const locked = {...packages['']?.dependencies, ...packages['']?.devDependencies};
	for (const name of extended) {
		const installed = read(`node_modules/${name}/package.json`).version;
		t.is(wanted[name], installed, name);
		t.is(locked[name], installed, name);
		t.is(packages[`node_modules/${name}`]?.version, installed, name);
	}
});

function hasMethods(t: ExecutionContext, library: {readonly prototype: object}, names: readonly string[]): void {
	for (const name of names) {
		t.is(typeof Reflect.get(library.prototype, name), 'function', name);
	}
}

/** A field is set in a constructor that needs a connection, so that its name is looked for in the library's text. */
function mentions(t: ExecutionContext, library: object, names: readonly string[]): void {
	const text = String(library);
	for (const name of names) {
		t.true(text.includes(name), name);
	}
}

test('knex has the places at which the SQLite client extends it', t => {
	hasMethods(t, SqliteDialect, ['transaction', '_query', '_driver', 'destroyRawConnection']);
	hasMethods(t, SqliteTransaction, ['begin', 'query', 'commit', 'rollback', 'isCompleted']);
	mentions(t, Object.getPrototypeOf(SqliteTransaction), ['_completed', '_resolver', '_rejecter']);
});

test('knex and pg have the places at which the PostgreSQL client extends them', t => {
	hasMethods(t, PostgresDialect, ['_acquireOnlyConnection', '_query', '_driver', 'destroyRawConnection']);
	hasMethods(t, pg.Query, ['submit', 'handleCopyInResponse']);
	hasMethods(t, pg.Connection, ['query', 'sendCopyFromChunk', 'endCopyFrom']);
	mentions(t, pg.Connection, ['this.stream']);
	mentions(t, pg.Client, ['this.connection', 'pipeline']);
});

test('a client of knex has its driver, configuration and connection settings where ours look', t => {
	mentions(t, Object.getPrototypeOf(SqliteDialect), [
		'this.driver = ',
		'this.config = ',
		'this.connectionSettings = ',
	]);
	hasMethods(t, sqlite.Statement, ['all', 'finalize']);
});

test('the pool of knex does not lend a connection that is marked as disposed', t => {
	mentions(t, Object.getPrototypeOf(SqliteDialect), ['__knex__disposed']);
});

test('smtp-server has the places at which its sessions are extended', t => {
	hasMethods(t, SMTPServer, ['connect', '_acceptSocket', '_upgrade']);
	mentions(t, SMTPServer, ['connections', '_pendingSockets']);
	hasMethods(t, SMTPConnection, [
		'init',
		'connectionReady',
		'send',
		'_createParser',
		'_onCommand',
		'_parseAddressCommand',
	]);
	mentions(t, SMTPConnection, ['_server', 'secure']);
	hasMethods(t, SMTPStream, ['oncommand', 'startDataMode', '_feedDataStream', '_countDataBytes', '_endDataMode']);
	mentions(t, SMTPStream, ['_dataStream']);
});

test('liquidjs has the places at which rendering is made direct', t => {
	hasMethods(t, Context, ['findScope', 'readProperty']);
	hasMethods(t, Value, ['value']);
	t.is(typeof filters.escape, 'function');
	const liquid = new Liquid();
	t.is(typeof liquid.renderer.renderTemplates, 'function');
	const value = new Value('name | upcase', liquid);
	t.is(value.filters.length, 1);
	t.is(typeof Reflect.get(value.filters[0] ?? {}, 'handler'), 'function');
	t.is(value.initial.postfix.length, 1);
});
