import {mkdirSync, readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test from 'ava';
import {openStore} from '../../src/store/store.ts';
import {migrateUpTo} from '../helpers/databases.ts';
import {headerOf, startMailHosts} from '../helpers/mail-hosts.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

type Cell = string | number | {readonly base64: string};

/** What a daemon of an early version left at `kill -9`: rows by table, its secrets and the API key that was used. */
const left = JSON.parse(readFileSync('test/fixtures/upgrade/bfa00f8.json', 'utf8')) as {
	readonly secrets: object;
	readonly key: string;
	readonly tables: Readonly<Record<string, ReadonlyArray<Readonly<Record<string, Cell>>>>>;
};

async function writeFormer(dataDir: string): Promise<void> {
	mkdirSync(dataDir, {mode: 0o700});
	const file = join(dataDir, 'mailctl.db');
	writeFileSync(join(dataDir, 'secrets.json'), JSON.stringify(left.secrets), {mode: 0o600});
	writeFileSync(file, '', {mode: 0o600});
	const store = await openStore({file});
	await migrateUpTo(store, '010_inbound');
	// The tables are in the order of their names.
	await store.database.raw('pragma foreign_keys = off');
	for (const [table, rows] of Object.entries(left.tables)) {
		await store.database(table).delete();
		const bytes = (cell: Cell) => (typeof cell === 'object' ? Buffer.from(cell.base64, 'base64') : cell);
		await store
			.database(table)
			.insert(rows.map(row => Object.fromEntries(Object.entries(row).map(([name, cell]) => [name, bytes(cell)]))));
	}
	await store.close();
}

test('a data folder of an early version, killed with mail in its queue: the next start upgrades it and sends all of it', async t => {
	const {program, host} = await startMailHosts(
		t,
		{'mx.good.example': {}},
		{},
		// The mail is as old as the fixture.
		{MAILCTL_QUEUE_LIFETIME: '3650d', MAILCTL_RETENTION_DAYS: '0'},
	);
	await writeFormer(join(program.folder, 'data'));
	const refused = await program.run('queue', 'summary');
	t.is(refused.code, 78);
	t.regex(refused.stderr, /made by an older mailctl, run mailctl migrate/);
	const backup = await program.cli<{schema: string}>('backup', join(program.folder, 'before.tar'));
	t.is(backup.schema, '010_inbound');

	const daemon = await program.serve();
	const mx = host('mx.good.example');
	await waitFor('all three copies', () => mx.count() === 3);
	const ids = (left.tables.messages ?? []).map(({id}) => String(id));
	for (const id of ids) {
		await waitFor(`${id} is delivered`, async () => {
			const {status, body} = await call(`${daemon.url}/v1/messages/${id}`, left.key);
			return status === 200 && (body as {status: string}).status === 'delivered';
		});
	}
	const byAddress = new Map(mx.received.map(({to, data}) => [to.join(), data]));
	t.deepEqual([...byAddress.keys()].toSorted(), ['copy@good.example', 'first@good.example', 'second@good.example']);
	const mail = byAddress.get('first@good.example') ?? Buffer.alloc(0);
	t.is(headerOf(mail, 'Subject'), 'Alert 1');
	t.regex(headerOf(mail, 'DKIM-Signature'), /d=shop\.example/);
	t.regex(mail.toString('latin1'), /filename="?a\.txt/);

	const [{id: templateId} = {}] = left.tables.templates ?? [];
	const send = async (to: string) =>
		await call(`${daemon.url}/v1/messages`, left.key, {from: 'no-reply@shop.example', to, templateId});
	t.is((await send('third@good.example')).status, 202);
	t.like((await send('never@good.example')).body as object, {error: {code: 'recipient_suppressed'}});
	await waitFor('new mail', () => mx.count() === 4);
	t.is(await daemon.stop(), 0);
	t.is(mx.count(), 4, 'nothing goes twice');
});
