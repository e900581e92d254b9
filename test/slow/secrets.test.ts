import {spawn} from 'node:child_process';
import {randomBytes} from 'node:crypto';
import {once} from 'node:events';
import {writeFileSync} from 'node:fs';
import {join, resolve} from 'node:path';
import process from 'node:process';
import test, {type ExecutionContext} from 'ava';
import {loadSecrets} from '../../src/config/secrets-file.ts';
import {createVault, readSealed, sealingIds} from '../../src/store/sealed.ts';
import {openStore, type Store, type StoreLocation} from '../../src/store/store.ts';
import {type Ended, type Program, prepareProgram} from '../helpers/daemon.ts';
import {type Engine, engines, newLocation} from '../helpers/databases.ts';
import {call, openShop, type Shop} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

const newKey = () => randomBytes(32).toString('base64');

/** The whole content of the store, by table. */
async function contentOf(location: StoreLocation): Promise<Record<string, unknown[]>> {
	const store = await openStore(location);
	try {
		const names = await tablesOf(store);
		const rows = await Promise.all(names.map(name => store.reader(name).orderByRaw('1, 2')));
		return Object.fromEntries(names.map((name, index) => [name, rows[index] ?? []]));
	} finally {
		await store.close();
	}
}

async function tablesOf({dialect, reader}: Store): Promise<string[]> {
	return dialect.name === 'sqlite'
		? await reader('sqlite_master')
				.where({type: 'table'})
				.whereNot('name', 'like', 'sqlite_%')
				.orderBy('name')
				.pluck('name')
		: await reader('pg_tables').where({schemaname: 'public'}).orderBy('tablename').pluck('tablename');
}

function refused(t: ExecutionContext, {code, stdout, stderr}: Ended, message: RegExp): void {
	t.is(code, 78, stderr);
	t.is(stdout, '');
	t.regex(stderr, /^(mailctl: [^\n]+\n)+$/);
	t.regex(stderr, message);
}

/** The program with a store of the engine; a later start may use other keys. */
async function prepare(t: ExecutionContext, engine: Engine) {
	const location = await newLocation(t, engine);
	const key = newKey();
	const program = await prepareProgram(
		t,
		'url' in location ? {MAILCTL_DATABASE_URL: location.url, MAILCTL_SECRET_KEY: key} : {},
	);
	const at: StoreLocation = 'url' in location ? location : {file: join(program.folder, 'data/mailctl.db')};
	const secrets = join(program.folder, 'data/secrets.json');

	/** Gives the program a key that differs from the store's. */
	async function exchangeKeys(): Promise<Program> {
		if ('url' in location) {
			return await prepareProgram(t, {MAILCTL_DATABASE_URL: location.url, MAILCTL_SECRET_KEY: newKey()});
		}
		writeFileSync(secrets, JSON.stringify({version: 1, current: 1, keys: {1: newKey()}}), {mode: 0o600});
		return program;
	}
	return {program, location: at, key, secrets, exchangeKeys};
}

async function send(url: string, {key, from, templates}: Shop, to: string): Promise<string> {
	const {status, body} = await call(`${url}/v1/messages`, key, {from, to, templateId: templates.get('alert')});
	if (status !== 202) {
		throw new Error(`${status} ${JSON.stringify(body)}`);
	}
	return (body as {id: string}).id;
}

async function delivered(program: Program, id: string): Promise<void> {
	await waitFor(`${id} is delivered`, async () => {
		const {message} = await program.cli<{message: {status: string}}>('message', 'show', id);
		return message.status === 'delivered';
	});
}

/** The unsubscribe link of a captured message. */
async function linkOf(program: Program, id: string): Promise<URL> {
	const mail = (await program.cliBytes('message', 'raw', id)).toString().replaceAll(/\r\n[ \t]+/g, '');
	return new URL(/^List-Unsubscribe: <([^>]+)>/im.exec(mail)?.[1] ?? '');
}

async function unsubscribe(url: string, link: URL): Promise<number> {
	const response = await fetch(`${url}${link.pathname}${link.search}`, {method: 'POST', body: new URLSearchParams()});
	await response.text();
	return response.status;
}

type Rotated = {key_id: number; total: number; former_key_ids: number[]; damaged: string[]; keep_former_until: string};

for (const engine of engines) {
	test.serial(`refuses to start with a different key and changes nothing (${engine})`, async t => {
		const {program, location, exchangeKeys} = await prepare(t, engine);
		await openShop(program, 'test/fixtures/flow/templates');
		const before = await contentOf(location);
		const stranger = await exchangeKeys();
		for (const args of [['serve'], ['webhook', 'list'], ['secrets', 'rotate']]) {
			refused(t, await stranger.run(...args), /not the key that|does not belong to this store/);
		}
		t.deepEqual(await contentOf(location), before);
	});

	test.serial(`detects a different key even in a store without secrets (${engine})`, async t => {
		const {program, location, exchangeKeys} = await prepare(t, engine);
		await program.cliBytes('init');
		await program.cliBytes('sender', 'remove', 'hello@example.com', '--yes');
		await program.cliBytes('domain', 'remove', 'example.com', '--yes');
		const before = await contentOf(location);
		const stranger = await exchangeKeys();
		refused(t, await stranger.run('serve'), /not the key that|does not belong to this store/);
		t.deepEqual(await contentOf(location), before);
	});
}

test.serial(
	'rotates secrets beside a running daemon: sending continues, old links work, all is re-encrypted',
	async t => {
		const {program, location} = await prepare(t, 'sqlite');
		const shop = await openShop(program, 'test/fixtures/flow/templates');
		await program.cliBytes('webhook', 'add', 'https://hooks.shop.example/mail', '--event', 'delivered');
		const daemon = await program.serve();
		const before = await send(daemon.url, shop, 'before@a.example');
		await delivered(program, before);

		const rotated = await program.cli<Rotated & {restart: boolean}>('secrets', 'rotate');
		t.like(rotated, {key_id: 2, total: 5, former_key_ids: [1], damaged: [], restart: true});
		t.true(Date.parse(rotated.keep_former_until) > Date.now() + 399 * 86_400_000);
		// Sealed with a key that the daemon has not read yet.
		await program.cliBytes('sender', 'add', 'no-reply@second.example', '--verified');
		const other = {...shop, from: 'no-reply@second.example'};
		const ids = [
			await send(daemon.url, shop, 'after@a.example'),
			await send(daemon.url, other, 'second@a.example'),
		];
		for (const id of ids) {
			await delivered(program, id);
		}
		t.is(await daemon.stop(), 0);

		const next = await program.serve();
		t.is(await unsubscribe(next.url, await linkOf(program, before)), 200);
		const last = await send(next.url, shop, 'last@a.example');
		await delivered(program, last);
		t.is(await unsubscribe(next.url, await linkOf(program, last)), 200);
		t.is(await next.stop(), 0);
		const store = await openStore(location);
		t.deepEqual(await sealingIds(store.reader), [2]);
		await store.close();
		t.regex(
			(await program.run('secrets', 'rotate')).stdout,
			/New key 3 in .*secrets\.json[\s\S]*Keep the 2 former keys until /,
		);
	},
);

test.serial('kill -9 at any moment of secrets rotate leaves every secret readable', async t => {
	const {program, location} = await prepare(t, 'sqlite');
	await openShop(program, 'test/fixtures/flow/templates');
	const dataDir = join(program.folder, 'data');
	const rotate = () =>
		spawn(process.execPath, [resolve('bin/mailctl.js'), 'secrets', 'rotate'], {
			...program.environment,
			stdio: 'ignore',
		});
	const began = performance.now();
	await once(rotate(), 'exit');
	const wholeMs = performance.now() - began;
	const kills = 4;
	for (let n = 1; n <= kills; n++) {
		const child = rotate();
		const ended = once(child, 'exit');
		const timer = setTimeout(() => child.kill('SIGKILL'), (wholeMs * (n + kills)) / (2 * kills));
		await ended;
		clearTimeout(timer);
		const store = await openStore(location);
		const vault = createVault(loadSecrets({dataDir, isExpected: true}));
		for (const {owner, sealed} of await readSealed(store.reader)) {
			t.notThrows(() => vault.open(owner, sealed));
		}
		await store.close();
	}
	t.log(`a rotation takes ${Math.round(wholeMs)} ms`);
	const daemon = await program.serve();
	t.is(await daemon.stop(), 0);
});

if (engines.includes('postgres')) {
	test.serial(
		'on PostgreSQL every node gets the new key, then secrets rotate, then the old key is removed',
		async t => {
			const {program, location, key} = await prepare(t, 'postgres');
			const url = 'url' in location ? location.url : '';
			const node = async (...keys: readonly string[]) =>
				await prepareProgram(t, {MAILCTL_DATABASE_URL: url, MAILCTL_SECRET_KEY: keys.join(',')});
			const shop = await openShop(program, 'test/fixtures/flow/templates');
			t.like(await program.cli<Rotated>('secrets', 'rotate'), {key_id: 1, total: 0, former_key_ids: []});
			const first = await program.serve();
			const before = await send(first.url, shop, 'before@a.example');
			await delivered(program, before);
			t.is(await first.stop(), 0);

			const added = newKey();
			refused(t, await (await node(added)).run('serve'), /MAILCTL_SECRET_KEY is not the key/);
			const both = await node(added, key);
			const second = await both.serve();
			const between = await send(second.url, shop, 'between@a.example');
			await delivered(both, between);
			t.is(await unsubscribe(second.url, await linkOf(program, before)), 200);
			refused(
				t,
				await (await node(added)).run('serve'),
				/MAILCTL_SECRET_KEY lacks a key that secrets .* add the former key/,
			);
			t.like(await both.cli<Rotated>('secrets', 'rotate'), {key_id: 2, total: 4, former_key_ids: [1]});
			t.is(await second.stop(), 0);
			refused(t, await program.run('serve'), /MAILCTL_SECRET_KEY lacks a key/);

			const after = await node(added);
			const third = await after.serve();
			const last = await send(third.url, shop, 'last@a.example');
			await delivered(after, last);
			t.is(await unsubscribe(third.url, await linkOf(both, between)), 200);
			t.is(await third.stop(), 0);
		},
	);

	test.serial('a node without the current key holds its messages and sends them once it has the key', async t => {
		const {program, location, key} = await prepare(t, 'postgres');
		const url = 'url' in location ? location.url : '';
		const shop = await openShop(program, 'test/fixtures/flow/templates');
		const daemon = await program.serve();
		const both = await prepareProgram(t, {MAILCTL_DATABASE_URL: url, MAILCTL_SECRET_KEY: `${newKey()},${key}`});
		await both.cliBytes('secrets', 'rotate');
		const id = await send(daemon.url, shop, 'waits@a.example');
		await waitFor('the fault is in the log', async () => (await program.log()).includes('"resource_fault"'));
		const {message} = await both.cli<{message: {status: string}}>('message', 'show', id);
		t.is(message.status, 'queued');
		t.is(await daemon.stop(), 0);
		const repaired = await both.serve();
		await both.cliBytes('queue', 'flush');
		await delivered(both, id);
		t.is(await repaired.stop(), 0);
	});
}
