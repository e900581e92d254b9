import {randomBytes} from 'node:crypto';
import {readdirSync, rmSync} from 'node:fs';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {ConfigError} from '../../../src/config/config-error.ts';
import {addSecret} from '../../../src/config/secrets-file.ts';
import {loadSettings, type Settings} from '../../../src/config/settings.ts';
import {openData} from '../../../src/store/data-folder/open.ts';
import {openStore} from '../../../src/store/store.ts';
import {engines, newLocation, temporaryFolder} from '../../helpers/databases.ts';

const newKey = () => randomBytes(32).toString('base64');

async function settingsOf(t: ExecutionContext, more: Readonly<Record<string, string>> = {}): Promise<Settings> {
	const cwd = await temporaryFolder(t);
	const loaded = loadSettings({
		env: {MAILCTL_DATA_DIR: join(cwd, 'data'), ...more},
		cwd,
		hostname: 'mail.example',
		cpus: 1,
	});
	if (!loaded.ok) {
		throw new Error(loaded.problems.join('\n'));
	}
	return loaded.settings;
}

const open = async (settings: Settings) => await openData(settings, {asRoot: true});

test('opens a store that does not know the newest key of the file yet', async t => {
	const settings = await settingsOf(t);
	const first = await open(settings);
	const sealed = first.vault.seal('dkm_1', 'pem');
	// As after a rotation that was killed between writing the file and the store.
	addSecret(settings.dataDir, []);
	t.is(first.vault.open('dkm_1', sealed), 'pem');
	await first.release();
	const second = await open(settings);
	t.is(second.vault.current(), 2);
	t.is(second.vault.open('dkm_1', sealed), 'pem');
	t.is((await second.store.reader('secret_keys')).length, 2);
	await second.release();
});

test('reports a missing secrets file even if nothing is encrypted', async t => {
	const settings = await settingsOf(t);
	await (await open(settings)).release();
	rmSync(join(settings.dataDir, 'secrets.json'));
	const error = await t.throwsAsync(open(settings), {instanceOf: ConfigError, message: /secrets\.json is missing/});
	t.is(error?.exitCode, 78);
	t.false(readdirSync(settings.dataDir).includes('secrets.json'));
});

if (engines.includes('postgres')) {
	test('only one of several nodes with different keys starts on an empty PostgreSQL database', async t => {
		const location = await newLocation(t, 'postgres');
		const url = 'url' in location ? location.url : '';
		const nodes = await Promise.all(
			[newKey(), newKey(), newKey()].map(
				async key => await settingsOf(t, {MAILCTL_DATABASE_URL: url, MAILCTL_SECRET_KEY: key}),
			),
		);
		const started = await Promise.allSettled(nodes.map(open));
		const held = started.flatMap(one => (one.status === 'fulfilled' ? [one.value] : []));
		const refused = started.flatMap(one => (one.status === 'rejected' ? [one.reason as ConfigError] : []));
		await Promise.all(held.map(({release}) => release()));
		t.is(held.length, 1);
		t.deepEqual(
			refused.map(({exitCode, message}) => [
				exitCode,
				/is not the key that the store was used with/.test(message),
			]),
			[
				[78, true],
				[78, true],
			],
		);
	});

	test('does not migrate an older store that uses another key', async t => {
		const location = await newLocation(t, 'postgres');
		const url = 'url' in location ? location.url : '';
		const settings = await settingsOf(t, {MAILCTL_DATABASE_URL: url, MAILCTL_SECRET_KEY: newKey()});
		const held = await open(settings);
		const secret = held.vault.seal('whe_1', 'whsec_1');
		await held.store.database.transaction(async trx => {
			await trx('workspaces').insert({id: 'ws_1', name: 'shop', created_at: ''});
			await trx('webhook_endpoints').insert({
				id: 'whe_1',
				workspace_id: 'ws_1',
				url: '',
				events: '[]',
				secret,
				created_at: '',
			});
			// As left by a program that recorded no key and lacked the last migration.
			await trx('secret_keys').delete();
			await trx.raw('alter table workspaces drop column paused_by');
			await trx.raw('alter table dkim_keys drop column seen_at');
			await trx('migrations').where({name: '030_proofs'}).delete();
		});
		await held.release();
		const stranger = await settingsOf(t, {MAILCTL_DATABASE_URL: url, MAILCTL_SECRET_KEY: newKey()});
		await t.throwsAsync(open(stranger), {instanceOf: ConfigError, message: /is not the key/});
		const store = await openStore({url});
		t.false(await store.reader.schema.hasColumn('workspaces', 'paused_by'));
		t.is((await store.reader('secret_keys')).length, 0);
		await store.close();
		const again = await open(settings);
		t.is(again.vault.open('whe_1', secret), 'whsec_1');
		t.is((await again.store.reader('secret_keys')).length, 1);
		await again.release();
	});
}
