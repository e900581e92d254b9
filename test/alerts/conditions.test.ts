import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test from 'ava';
import {readConditions} from '../../src/alerts/conditions.ts';
import {loadSettings} from '../../src/config/settings.ts';
import {noteBackup} from '../../src/data-folder/backup-note.ts';
import {storeTime} from '../../src/kit/time.ts';
import type {AlertKind} from '../../src/mail/alert.ts';
import {alertKindNames} from '../../src/mail/alert.ts';
import {noteWishes} from '../../src/store/certificates.ts';
import {listFailedDomains} from '../../src/store/domains.ts';
import {beat, loseNodes} from '../../src/store/nodes.ts';
import {insertSmarthost} from '../../src/store/smarthosts.ts';
import {listDeadEndpoints} from '../../src/store/webhook-queue.ts';
import {findPausedByOthers} from '../../src/store/workspaces.ts';
import {makeCertificate} from '../helpers/certificate.ts';
import {storeTest, temporaryFolder} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace, newId} from '../helpers/messages.ts';
import {insertEndpoint} from '../helpers/webhooks.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

storeTest(test, 'each kind is seen when it is there, and not seen when it is over', async (t, store) => {
	const dataDir = await temporaryFolder(t);
	const certificate = makeCertificate('bounces.shop.example');
	const [certFile, keyFile] = [join(dataDir, 'cert.pem'), join(dataDir, 'key.pem')];
	writeFileSync(certFile, certificate.cert);
	writeFileSync(keyFile, certificate.key);
	const env = {
		MAILCTL_DATA_DIR: dataDir,
		MAILCTL_DELIVERY: 'mx',
		MAILCTL_HOSTNAME: 'mail.shop.example',
		MAILCTL_RETURN_PATH_DOMAIN: 'bounces.shop.example',
		MAILCTL_INBOUND_LISTEN: '127.0.0.1:0',
		MAILCTL_INBOUND_TLS_CERT: certFile,
		MAILCTL_INBOUND_TLS_KEY: keyFile,
		MAILCTL_MIN_FREE_DISK: '1',
	};
	const load = (more: Readonly<Record<string, string>> = {}) => {
		const loaded = loadSettings({env: {...env, ...more}, cwd: dataDir, hostname: 'vm', cpus: 1});
		if (!loaded.ok) {
			throw new Error(loaded.problems.join('\n'));
		}
		return loaded.settings;
	};
	let now = Date.now();
	const state = {settings: load(), installed: '1.0.0', step: 0, mailbox: true, skew: 0};
	const clock = {now: () => now, monotonic: () => now};
	/** What is seen of a kind: its subjects. */
	const seen = async (kind: AlertKind) => {
		const found = await readConditions(kind, {
			...{settings: state.settings, clock, host: 'vm', version: '1.0.0'},
			store: {...store, skew: () => state.skew, dialect: {...store.dialect, isShared: true}},
			minFreeDisk: () => state.settings.minFreeDisk,
			installed: () => state.installed,
			clockStep: () => state.step,
			mailboxUp: () => state.mailbox,
		});
		return found.map(({subject}) => subject);
	};
	const tried = new Set<AlertKind>();
	const rings = async (kind: AlertKind, subjects: readonly string[], begin: () => unknown, end: () => unknown) => {
		tried.add(kind);
		t.deepEqual(await seen(kind), [], `${kind} before`);
		await begin();
		t.deepEqual(await seen(kind), subjects, kind);
		await end();
		t.deepEqual(await seen(kind), [], `${kind} after`);
	};
	const change = (table: string, changes: object) => store.database(table).update(changes);
	const {workspaceId} = await insertWorkspace(store);
	const at = (before: number) => storeTime(now - before);

	await change('domains', {state: 'failed', verified_at: null});
	t.deepEqual(await seen('domain_failed'), [], 'it was never verified');
	await change('domains', {state: 'pending', first_verified_at: at(9 * day)});
	await rings(
		'domain_failed',
		[`shop.example ${workspaceId}`],
		() => change('domains', {state: 'failed'}),
		() => change('domains', {state: 'verified'}),
	);
	await rings(
		'workspace_paused',
		[workspaceId],
		() => change('workspaces', {paused_at: at(0), pause_reason: 'bounces'}),
		() => change('workspaces', {paused_at: at(0), paused_by: 'workspace'}),
	);
	await change('workspaces', {paused_at: null});
	const advice = 'ask the postmaster';
	const blocking = (site: string, provider: string) => ({
		...{site, provider, suspended_until: at(-hour), reason: '550 blocked', advice},
		...{waits_for: 'suspension', step: 0, window: 1, updated_at: at(0)},
	});
	await rings(
		'provider_blocks',
		['default', 't-online'],
		() =>
			store
				.database('sites')
				.insert([
					...['a.example', 'b.example'].map(site => blocking(site, 'default')),
					...[blocking('mx.t-online.de', 't-online'), {...blocking('c.example', 'default'), advice: null}],
				]),
		() => change('sites', {suspended_until: at(minute)}),
	);
	await store.database('sites').delete();
	await rings(
		'smarthost_refuses',
		['relay.example'],
		() =>
			store.database('sites').insert({
				...{site: 'relay.example', provider: 'relay.example', suspended_until: at(-hour), reason: '535 no'},
				...{waits_for: 'route', step: 1, window: 1, updated_at: at(0)},
			}),
		() => change('sites', {suspended_until: at(minute)}),
	);
	const smarthost = {provider: 'ses', secret: null, topic: null, takes: [], last_event_at: at(2 * day)} as const;
	const add = (id: string, workspace_id: string | null) =>
		store.writer.transaction(trx =>
			insertSmarthost(trx, {...smarthost, id, workspace_id, token_hash: id, created_at: at(9 * day)}),
		);
	await add('smh_1', null);
	await add('smh_2', workspaceId);
	await insertMessages(store, workspaceId, ['ann@x.example']);
	const used = {used_at: at(hour), unreported_since: at(25 * hour)};
	await rings(
		'smarthost_silent',
		['smh_1'],
		() => store.database('smarthosts').where({id: 'smh_1'}).update(used),
		() => change('smarthosts', {used_at: at(hour), unreported_since: at(23 * hour)}),
	);
	await change('smarthosts', {used_at: at(8 * day), unreported_since: at(8 * day)});
	t.deepEqual(await seen('smarthost_silent'), [], 'it is no longer in use');
	await rings(
		'bounces_unread',
		['vm mailbox', 'store'],
		async () => {
			state.mailbox = false;
			await store.database('inbound').insert({
				...{id: newId('rpt'), digest: 'd', source: 'smtp', mail_from: '', rcpt_to: '[]', size: 1},
				...{received_at: at(hour), raw: Buffer.from('x'), node: 'n'},
			});
		},
		async () => {
			state.mailbox = true;
			await change('inbound', {read_at: at(0)});
		},
	);
	const endpoint = await insertEndpoint(store, workspaceId);
	await rings(
		'webhook_dead',
		[endpoint],
		() => change('webhook_endpoints', {failing_since: at(2 * day)}),
		() => change('webhook_endpoints', {failing_since: at(hour)}),
	);
	await rings(
		'webhook_dead',
		[endpoint],
		() => change('webhook_endpoints', {disabled_at: at(0), disabled_reason: 'gone'}),
		() => change('webhook_endpoints', {disabled_reason: null}),
	);
	await rings(
		'blocklisted',
		['192.0.2.1 zen.example'],
		() =>
			store.database('blocklistings').insert({
				...{source: '192.0.2.1', zone: 'zen.example', name: 'Zen', delist: 'https://zen.example', state: 'listed'},
				...{answer: '127.0.0.2', reason: 'spam', since: at(0), checked_at: at(0), asked_at: at(0)},
			}),
		() => change('blocklistings', {state: 'refused'}),
	);
	await rings(
		'disk',
		['vm disk'],
		() => {
			state.settings = load({MAILCTL_MIN_FREE_DISK: '1023GiB'});
		},
		() => {
			state.settings = load();
		},
	);
	const suspended = {destination: 'x.example', reason: 'r', created_at: at(0)};
	await rings(
		'queue_old',
		['queue'],
		() => {
			now += hour;
		},
		() => store.database('suspensions').insert(suspended),
	);

	const node = {id: 'req_1', host: 'mail2', pid: 7, version: '1.0.0', roles: ['deliver']};
	const alive = (one: typeof node) => store.writer.transaction(trx => beat(trx, one, at(0)));
	await rings(
		'node_lost',
		['mail2'],
		async () => {
			await alive(node);
			t.is(await store.writer.transaction(trx => loseNodes(trx, nodes => nodes.where({id: 'req_1'}), at(0))), 1);
		},
		() => alive({...node, id: 'req_2'}),
	);
	await rings(
		'version',
		['nodes', 'vm'],
		async () => {
			await alive({...node, id: 'req_3', version: '1.1.0'});
			state.installed = '1.1.0';
		},
		async () => {
			await store.database('nodes').where({id: 'req_3'}).delete();
			state.installed = '1.0.0';
		},
	);
	await rings(
		'clock',
		['vm step', 'vm database-clock'],
		() => Object.assign(state, {step: 120_000, skew: 60_000}),
		() => Object.assign(state, {step: 0, skew: 0}),
	);
	noteBackup(dataDir, now);
	await rings(
		'backup_old',
		['vm'],
		() => {
			now += 2 * day;
		},
		() => noteBackup(dataDir, now),
	);
	// The certificate is good for two days, which is soon.
	t.deepEqual(await seen('certificate'), ['vm listener-tls']);
	state.settings = load({MAILCTL_INBOUND_TLS_CERT: '', MAILCTL_INBOUND_TLS_KEY: ''});
	t.deepEqual(await seen('certificate'), []);
	state.settings = load({MAILCTL_ACME: 'true', MAILCTL_INBOUND_TLS_CERT: '', MAILCTL_INBOUND_TLS_KEY: ''});
	const row = (changes: object) => store.database('certificates').update(changes);
	await store.writer.transaction(trx => noteWishes(trx, [{name: 'mail.shop.example', unused: null}], storeTime(now)));
	t.deepEqual(await seen('certificate'), [], 'it is being ordered');
	await row({fault: 'the CA cannot reach port 80', tries: 2});
	t.deepEqual(await seen('certificate'), [], 'minutes are no news');
	await row({tries: 3});
	t.deepEqual(await seen('certificate'), ['mail.shop.example']);
	const ends = (days: number) => ({not_before: storeTime(now - 50 * day), not_after: storeTime(now + days * day)});
	await row({fault: null, tries: 0, ...ends(15)});
	t.deepEqual(await seen('certificate'), []);
	await row(ends(13));
	t.deepEqual(await seen('certificate'), ['mail.shop.example']);
	await row({fault: 'the CA cannot reach port 80', tries: 0});
	t.deepEqual(await seen('certificate'), ['mail.shop.example'], 'also while an operator has it ordered again');
	await row(ends(15));
	t.deepEqual(await seen('certificate'), []);
	await row(ends(13));
	await row({unused: 'it leads elsewhere'});
	t.deepEqual(await seen('certificate'), []);
	tried.add('certificate');

	t.deepEqual(
		alertKindNames.filter(kind => !tried.has(kind)),
		[],
	);
});

storeTest(test, 'what fails in one workspace pushes nobody else off a list', async (t, store) => {
	const {workspaceId: noisy} = await insertWorkspace(store, 'noisy');
	const {workspaceId: quiet} = await insertWorkspace(store, 'quiet');
	const own = (n: number, workspace_id: string, at: string) => ({
		...{id: newId('dom'), workspace_id, name: `d${n}.example`, ownership_token: 'x', state: 'failed'},
		...{state_at: at, created_at: at, first_verified_at: at},
	});
	const now = Date.now();
	const rows = Array.from({length: 300}, (_, n) => own(n, noisy, storeTime(now + n)));
	await store.database.batchInsert('domains', [own(0, quiet, storeTime(now - day)), ...rows], 50);
	const limits = {limit: 20, perWorkspace: 10};
	const domains = await listFailedDomains(store.reader, limits);
	t.deepEqual([domains.length, domains.filter(one => one.workspace_id === quiet).length], [11, 1]);
	const [newest] = domains.filter(one => one.workspace_id === noisy);
	t.is(newest?.name, 'd299.example');
	const few = await listFailedDomains(store.reader, {limit: 2, perWorkspace: 10});
	t.deepEqual(few.map(one => one.workspace_id).toSorted(), [noisy, quiet].toSorted());

	for (let n = 0; n < 12; n++) {
		await insertEndpoint(store, noisy);
	}
	const last = await insertEndpoint(store, quiet);
	await store.database('webhook_endpoints').update({disabled_at: storeTime(now), disabled_reason: 'gone'});
	const dead = await listDeadEndpoints(store.reader, storeTime(now), limits);
	t.deepEqual([dead.length, dead.some(({id}) => id === last)], [11, true]);

	await store.database('workspaces').update({paused_at: storeTime(now), paused_by: 'user:x'});
	await store.database('workspaces').where({id: noisy}).update({paused_by: null});
	t.deepEqual(
		(await findPausedByOthers(store.reader, 1)).map(({id}) => id),
		[noisy],
	);
});
