import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test from 'ava';
import {loadSettings} from '../../../src/config/settings.ts';
import {storeTime} from '../../../src/kit/time.ts';
import type {AlertKind} from '../../../src/mail/alert.ts';
import {alertKindNames} from '../../../src/mail/alert.ts';
import type {Refusals} from '../../../src/outcome/infrastructure-alarm.ts';
import {readConditions} from '../../../src/resources/alerts/conditions.ts';
import {noteWishes} from '../../../src/resources/certificates/store.ts';
import {listFailedDomains} from '../../../src/resources/domains/store.ts';
import {insertSmarthost} from '../../../src/resources/smarthosts/store.ts';
import {listDeadEndpoints} from '../../../src/resources/webhooks/queue-store.ts';
import {findPausedByOthers} from '../../../src/resources/workspaces/store.ts';
import {noteBackup} from '../../../src/store/data-folder/backup-note.ts';
import {beat, loseNodes} from '../../../src/store/nodes.ts';
import {makeCertificate} from '../../helpers/certificate.ts';
import {storeTest, temporaryFolder} from '../../helpers/databases.ts';
import {insertMessages, insertWorkspace, newId} from '../../helpers/messages.ts';
import {insertEndpoint} from '../../helpers/webhooks.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

storeTest(test, 'detects each kind of condition while it lasts and not afterwards', async (t, store) => {
	const dataDir = await temporaryFolder(t);
	const env = {
		...{MAILCTL_DATA_DIR: dataDir, MAILCTL_DELIVERY: 'mx', MAILCTL_HOSTNAME: 'mail.shop.example'},
		...{MAILCTL_RETURN_PATH_DOMAIN: 'bounces.shop.example', MAILCTL_INBOUND_LISTEN: '127.0.0.1:0'},
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
	const at = (before: number) => storeTime(now - before);
	const refusals: Refusals[] = [];
	const state = {settings: load(), installed: '1.0.0', step: 0, mailbox: true, skew: 0, refusals};
	const clock = {now: () => now, monotonic: () => now};
	const untested = new Set(alertKindNames);
	const reads = async (kind: AlertKind, subjects: readonly string[], message?: string) => {
		const conditions = await readConditions(kind, {
			...{settings: state.settings, clock, host: 'vm', version: '1.0.0'},
			store: {...store, skew: () => state.skew, dialect: {...store.dialect, isShared: true}},
			minFreeDisk: () => state.settings.minFreeDisk,
			installed: () => state.installed,
			clockStep: () => state.step,
			mailboxUp: () => state.mailbox,
			refusals: () => state.refusals,
		});
		t.deepEqual(
			conditions.map(({subject}) => subject),
			subjects,
			message ?? kind,
		);
		if (subjects.length > 0) {
			untested.delete(kind);
		}
	};
	const {database} = store;
	const {transaction} = store.writer;
	const change = (table: string, changes: object) => database(table).update(changes);
	const {workspaceId} = await insertWorkspace(store);
	const endpoint = await insertEndpoint(store, workspaceId);
	noteBackup(dataDir, now);
	for (const kind of alertKindNames) {
		await reads(kind, []);
	}

	await change('domains', {state: 'failed', verified_at: null});
	await reads('domain_failed', [], 'it was never verified');
	await change('domains', {first_verified_at: at(9 * day)});
	await reads('domain_failed', [`shop.example ${workspaceId}`]);
	await change('domains', {state: 'verified'});
	await reads('domain_failed', []);

	await change('workspaces', {paused_at: at(0), pause_reason: 'bounces'});
	await reads('workspace_paused', [workspaceId]);
	await change('workspaces', {paused_by: 'workspace'});
	await reads('workspace_paused', []);
	await change('workspaces', {paused_at: null});

	const site = {suspended_until: at(-hour), reason: '550 no', step: 0, window: 1, updated_at: at(0)};
	const blocking = {...site, provider: 'default', waits_for: 'suspension', advice: 'ask the postmaster'};
	await database('sites').insert([
		...[
			{...blocking, site: 'a.example'},
			{...blocking, site: 'b.example'},
			{...blocking, site: 'c.example', advice: null},
		],
		{...blocking, site: 'mx.t-online.de', provider: 't-online'},
	]);
	await reads('provider_blocks', ['default', 't-online']);
	await reads('destination_failing', [], 'c.example has backed off once');
	await change('sites', {step: 4});
	const waits = {node: 'n', waits_for: 'suspension', detail: '{}', updated_at: at(0)};
	await database('lane_waits').insert({
		...waits,
		destination: 'd.test',
		workspace_id: workspaceId,
		site: 'c.example',
	});
	await insertMessages(store, workspaceId, ['a@d.test', 'b@d.test', 'c@d.test', 'd@d.test']);
	await reads('destination_failing', [], 'too few messages wait for it');
	await insertMessages(store, workspaceId, ['e@d.test']);
	await reads('destination_failing', ['c.example'], 'the others block us');
	await change('sites', {suspended_until: at(hour)});
	await reads('destination_failing', ['c.example'], 'it is tested again when a message is due');
	await change('sites', {suspended_until: at(3 * hour)});
	await reads('destination_failing', [], 'nothing has tested it for hours');
	await database('lane_waits').delete();
	await database('queue').delete();
	await reads('provider_refuses', []);
	const outlook = {provider: 'outlook.com', attempts: 40, refused: 10};
	state.refusals.push({...outlook, host: 'mx.outlook.com', reply: '550 5.7.1 S3150'});
	await reads('provider_refuses', ['outlook.com']);
	await database('sites').delete();
	await database('sites').insert({...site, site: 'relay.example', provider: 'relay.example', waits_for: 'route'});
	await reads('smarthost_refuses', ['relay.example']);
	await change('sites', {suspended_until: at(minute)});
	await reads('smarthost_refuses', []);
	await reads('provider_blocks', []);

	const smarthost = {provider: 'ses', secret: null, topic: null, takes: [], last_event_at: at(2 * day)} as const;
	for (const [id, workspace_id] of [
		['smh_1', null],
		['smh_2', workspaceId],
	] as const) {
		const row = {...smarthost, id, workspace_id, token_hash: id, created_at: at(9 * day)};
		await transaction(trx => insertSmarthost(trx, row));
	}
	await reads('smarthost_silent', [], 'neither is used');
	await database('smarthosts')
		.where({id: 'smh_1'})
		.update({used_at: at(hour), unreported_since: at(25 * hour)});
	await reads('smarthost_silent', ['smh_1']);
	await change('smarthosts', {used_at: at(hour), unreported_since: at(23 * hour)});
	await reads('smarthost_silent', []);
	await change('smarthosts', {used_at: at(8 * day), unreported_since: at(8 * day)});
	await reads('smarthost_silent', [], 'neither is used any longer');

	state.mailbox = false;
	await database('inbound').insert({
		...{id: newId('rpt'), digest: 'd', source: 'smtp', mail_from: '', rcpt_to: '[]', size: 1},
		...{received_at: at(hour), raw: Buffer.from('x'), node: 'n'},
	});
	await reads('bounces_unread', ['vm mailbox', 'store']);
	state.mailbox = true;
	await change('inbound', {read_at: at(0)});
	await reads('bounces_unread', []);

	await change('webhook_endpoints', {failing_since: at(2 * day)});
	await reads('webhook_dead', [endpoint]);
	await change('webhook_endpoints', {failing_since: at(hour)});
	await reads('webhook_dead', []);
	await change('webhook_endpoints', {disabled_at: at(0), disabled_reason: 'gone'});
	await reads('webhook_dead', [endpoint]);
	await change('webhook_endpoints', {disabled_reason: null});
	await reads('webhook_dead', []);

	await database('blocklistings').insert({
		...{source: '192.0.2.1', zone: 'zen.example', name: 'Zen', delist: 'https://zen.example', state: 'listed'},
		...{answer: '127.0.0.2', reason: 'spam', since: at(0), checked_at: at(0), asked_at: at(0)},
	});
	await reads('blocklisted', ['192.0.2.1 zen.example']);
	await change('blocklistings', {state: 'refused'});
	await reads('blocklisted', []);

	state.settings = load({MAILCTL_MIN_FREE_DISK: '1023GiB'});
	await reads('disk', ['vm disk']);
	state.settings = load();
	await reads('disk', []);

	await insertMessages(store, workspaceId, ['ann@x.example']);
	await reads('queue_old', []);
	now += hour;
	await reads('queue_old', ['queue']);
	await database('suspensions').insert({destination: 'x.example', reason: 'r', created_at: at(0)});
	await reads('queue_old', []);

	const node = {id: 'req_1', host: 'mail2', pid: 7, version: '1.0.0', roles: ['deliver']};
	const isAlive = (one: typeof node) => transaction(trx => beat(trx, one, at(0)));
	await isAlive(node);
	t.is(await transaction(trx => loseNodes(trx, nodes => nodes.where({id: 'req_1'}), at(0))), 1);
	await reads('node_lost', ['mail2']);
	await isAlive({...node, id: 'req_2'});
	await reads('node_lost', []);

	await isAlive({...node, id: 'req_3', version: '1.1.0'});
	state.installed = '1.1.0';
	await reads('version', ['nodes', 'vm']);
	await database('nodes').where({id: 'req_3'}).delete();
	state.installed = '1.0.0';
	await reads('version', []);

	Object.assign(state, {step: 120_000, skew: 60_000});
	await reads('clock', ['vm step', 'vm database-clock']);
	Object.assign(state, {step: 0, skew: 0});
	await reads('clock', []);

	now += 2 * day;
	await reads('backup_old', ['vm']);
	noteBackup(dataDir, now);
	await reads('backup_old', []);

	// The certificate expires in two days, which counts as soon.
	const {cert, key} = makeCertificate('bounces.shop.example');
	writeFileSync(join(dataDir, 'cert.pem'), cert);
	writeFileSync(join(dataDir, 'key.pem'), key);
	state.settings = load({MAILCTL_INBOUND_TLS_CERT: 'cert.pem', MAILCTL_INBOUND_TLS_KEY: 'key.pem'});
	await reads('certificate', ['vm listener-tls']);
	state.settings = load({MAILCTL_ACME: 'true'});
	const name = 'mail.shop.example';
	const ends = (days: number) => ({not_before: at(50 * day), not_after: at(-days * day)});
	const fault = 'the CA cannot reach port 80';
	await transaction(trx => noteWishes(trx, [{name, unused: null}], at(0)));
	await reads('certificate', [], 'it is being ordered');
	for (const [row, isNews] of [
		[{fault, tries: 2}, false],
		[{fault, tries: 3}, true],
		[{fault: null, tries: 0, ...ends(15)}, false],
		[{fault: null, tries: 0, ...ends(13)}, true],
		// As when the operator orders it again.
		[{fault, tries: 0, ...ends(13)}, true],
		[{fault, tries: 0, ...ends(15)}, false],
		[{fault, tries: 0, ...ends(13), unused: 'it leads elsewhere'}, false],
	] as const) {
		await change('certificates', row);
		await reads('certificate', isNews ? [name] : [], JSON.stringify(row));
	}

	t.deepEqual([...untested], []);
});

storeTest(test, 'the failures of one workspace do not crowd out those of others', async (t, store) => {
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
