import test, {type ExecutionContext} from 'ava';
import {generateSigningKeys} from '../../src/compose/dkim.ts';
import {createObserver} from '../../src/daemon/observer.ts';
import {DomainChecks} from '../../src/daemon/upkeep.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {storeTime} from '../../src/kit/time.ts';
import {createResolver} from '../../src/net/resolver.ts';
import {domainRecords} from '../../src/resources/domains/domain-records.ts';
import {addDomain, rotateKeys} from '../../src/resources/domains/rules.ts';
import {addSender} from '../../src/resources/domains/senders-rules.ts';
import type {SigningKeys} from '../../src/resources/domains/signing-keys.ts';
import {
	countDomainStates,
	type DkimKey,
	type Domain,
	findDomain,
	findDomainSigning,
	findSender,
	listDkimKeys,
} from '../../src/resources/domains/store.ts';
import type {DomainCheck} from '../../src/resources/domains/verify-domain.ts';
import {type OperationContext, performIn, Refused} from '../../src/resources/operation.ts';
import {createWorkspace} from '../../src/resources/workspaces/rules.ts';
import {readGeneration} from '../../src/store/changes.ts';
import type {Store} from '../../src/store/store.ts';
import {storeTest} from '../helpers/databases.ts';
import {publish} from '../helpers/domain-zone.ts';
import {startFakeDns, type Zone} from '../helpers/fake-dns.ts';
import {testTools, testVault} from '../helpers/tools.ts';
import {insertEndpoint} from '../helpers/webhooks.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const host = 'bounces.mail.example';
const names = {
	...{host, bounceHost: host, returnPathDomain: host, sourceAddresses: [], smarthosts: [], receives: false},
	...{publicHost: host, policy: async () => null},
};

let keys: SigningKeys;
test.before(async () => {
	keys = await generateSigningKeys();
});

/** A workspace with a domain, DNS servers, and a daemon's checks with a clock that the test controls. */
async function prepare(t: ExecutionContext, store: Store, zone: Zone = {}, more: Zone[] = []) {
	const tools = testTools();
	const write = store.writer.transaction;
	const workspace = await write(trx => createWorkspace(trx, tools, {name: 'acme'}));
	const workspaceId = workspace?.id as string;
	const contextIn = (trx: OperationContext['trx'], workspace = workspaceId): OperationContext => ({
		...{face: 'cli', workspaceId: workspace, mode: 'live', tools, vault: async () => testVault},
		trx,
	});
	const add = (name: string) => write(trx => performIn(addDomain, contextIn(trx), {name, keys, ownHosts: []}));
	const rotate = ({id}: Domain, newKeys: SigningKeys) =>
		write(trx => performIn(rotateKeys, contextIn(trx), {id, keys: newKeys}));
	const addFrom = (address: string, verified = false, workspace = workspaceId) => {
		const input = {address, verified, newKeys: async () => keys};
		return write(trx => performIn(addSender, contextIn(trx, workspace), input));
	};
	const servers = await Promise.all([zone, ...more].map(each => startFakeDns(t, each)));
	const checked: DomainCheck[] = [];
	const lines: Array<Record<string, unknown>> = [];
	const note = (line: Record<string, unknown>) => void lines.push(line);
	const observer = createObserver({
		metrics: {} as never,
		logger: {info: note, warn: note, error: note} as never,
		storeFailed(error) {
			throw error;
		},
		infrastructure: {countAttempt: () => null},
		clock: tools.clock,
	});
	const daemon = () => {
		const checks = new DomainChecks({
			store,
			names,
			openSources: () => ({
				resolvers: servers.map(({server}) =>
					createResolver({servers: [server], timeoutMs: 60_000, tries: 1, clock: systemClock}),
				),
				authority: async () => null,
				close: () => undefined,
			}),
			acting: tools,
			observer: {
				...observer,
				domainChecked(check) {
					checked.push(check);
					observer.domainChecked(check);
				},
			},
		});
		t.teardown(() => checks.stop());
		return checks;
	};
	const read = async (name = 'shop.example') => (await findDomain(store.reader, workspaceId, name)) as Domain;
	const records = async () => {
		const domain = await read();
		return domainRecords({...names, domain, keys: await listDkimKeys(store.reader, domain.id)});
	};
	const selectors = async () => {
		const {keyIds} = await findDomainSigning(store.reader, (await read()).id, storeTime(tools.clock.now()));
		const rows = await listDkimKeys(store.reader, (await read()).id);
		return keyIds.map(id => rows.find((row: DkimKey) => row.id === id)?.selector);
	};
	await add('shop.example');
	return {
		tools,
		write,
		workspaceId,
		add,
		addFrom,
		contextIn,
		rotate,
		zone,
		servers,
		daemon,
		checks: daemon(),
		checked,
		lines,
		read,
		records,
		selectors,
	};
}

storeTest(test, 'verifies a domain and its senders once DNS shows the record', async (t, store) => {
	const {tools, workspaceId, addFrom, zone, servers, checks, checked, lines, read, records} = await prepare(t, store);
	await addFrom('a@shop.example');
	await addFrom('b@shop.example', true);
	await insertEndpoint(store, workspaceId, {events: ['domain_changed']});
	await checks.checkDue();
	t.like(await read(), {state: 'pending', failures: 1, checked_at: '2026-06-09T10:00:00.000Z'});
	const asked = servers[0]?.queries.length as number;
	t.true(asked > 0);
	tools.advance(minute - 1);
	await checks.checkDue();
	t.is(servers[0]?.queries.length, asked, 'it is not due');

	publish(zone, (await records()).slice(0, 1));
	const before = await readGeneration(store.reader);
	tools.advance(1);
	await checks.checkDue();
	t.like(await read(), {
		state: 'verified',
		verified_at: '2026-06-09T10:01:00.000Z',
		failures: 0,
		return_path_at: null,
	});
	t.true((await readGeneration(store.reader)) > before, 'daemons are told');
	t.like(await findSender(store.reader, workspaceId, 'a@shop.example'), {verified_at: '2026-06-09T10:01:00.000Z'});
	t.is(checked.length, 2);
	t.deepEqual(await countDomainStates(store.reader), {pending: 0, verified: 1, degraded: 0, failed: 0});

	delete zone['_mailctl.shop.example'];
	for (const wait of [day, hour, 72 * hour]) {
		tools.advance(wait);
		await checks.checkDue();
	}
	t.like(await read(), {state: 'failed', verified_at: null, failures: 3});
	t.like(await findSender(store.reader, workspaceId, 'a@shop.example'), {verified_at: null});
	t.like(
		await findSender(store.reader, workspaceId, 'b@shop.example'),
		{verified_at: '2026-06-09T10:00:00.000Z'},
		'the word of an operator stays',
	);
	const posted = await store.reader('webhook_deliveries').orderBy('id').select('message_id', 'body');
	t.deepEqual(
		posted.map(({message_id: message, body}) => [message, JSON.parse(Buffer.from(body).toString()).detail]),
		[
			[null, {domain: 'shop.example', state: 'verified', verified: true}],
			[null, {domain: 'shop.example', state: 'degraded', verified: true}],
			[null, {domain: 'shop.example', state: 'failed', verified: false}],
		],
	);
	t.deepEqual(
		lines.map(({event, domain, from, to, lacking}) => [event, domain, from, to, lacking]),
		[
			['domain_state', 'shop.example', 'pending', 'verified', ['mc1._domainkey.shop.example']],
			...(['degraded', 'failed'] as const).map((to, n) => [
				...['domain_state', 'shop.example', ['verified', 'degraded'][n], to],
				['_mailctl.shop.example', 'mc1._domainkey.shop.example'],
			]),
		],
	);
});

storeTest(test, 'a DNS failure does not count against the domain', async (t, store) => {
	const {tools, zone, checks, read, records} = await prepare(t, store);
	publish(zone, await records());
	await checks.checkDue();
	t.like(await read(), {state: 'verified', return_path_at: '2026-06-09T10:00:00.000Z'});
	for (const {name} of await records()) {
		zone[name] = 'servfail';
	}
	for (let days = 0; days < 5; days++) {
		tools.advance(day);
		await checks.checkDue();
	}
	t.like(await read(), {state: 'verified', failures: 0, return_path_at: '2026-06-09T10:00:00.000Z'});
	t.is((await read()).checked_at, '2026-06-14T10:00:00.000Z', 'it was asked');
});

storeTest(test, 'does not use a foreign return path that an older version accepted', async (t, store) => {
	const {tools, write, zone, checks, read, records} = await prepare(t, store);
	const elsewhere = {return_path_domain: 'bounce.victim.example'};
	await write(trx => trx('domains').update(elsewhere));
	publish(zone, await records());
	await checks.checkDue();
	t.like(await read(), {state: 'verified', return_path_at: null});
	await write(trx => trx('domains').update({return_path_at: '2026-06-09T10:00:00.000Z'}));
	tools.advance(day);
	await checks.checkDue();
	t.like(await read(), {...elsewhere, return_path_at: null});
});

storeTest(test, 'one DNS server with the record verifies a domain, but a new key must be on all', async (t, store) => {
	const second: Zone = {};
	const {tools, rotate, zone, checks, read, records, selectors} = await prepare(t, store, {}, [second]);
	publish(second, await records());
	await checks.checkDue();
	t.is((await read()).state, 'verified');

	const domain = await read();
	await rotate(domain, keys);
	publish(second, await records());
	tools.advance(minute);
	await checks.checkDue();
	t.deepEqual(await selectors(), ['mc1', 'mc2'], 'the other server lacks the new keys');
	publish(zone, await records());
	tools.advance(minute);
	await checks.checkDue();
	t.deepEqual(await selectors(), ['mc3', 'mc4']);
});

storeTest(
	test,
	'a rotation signs with the old keys until DNS shows the new ones, and removes them with their records',
	async (t, store) => {
		const {tools, rotate, zone, checks, lines, read, records, selectors} = await prepare(t, store);
		publish(zone, await records());
		await checks.checkDue();
		const domain = await read();
		const fresh = await generateSigningKeys();
		await rotate(domain, fresh);
		const {wrong} = (await t.throwsAsync(rotate(domain, keys), {instanceOf: Refused})) as Refused;
		t.regex(wrong, /already waiting for DNS \(mc3, mc4\)/);
		zone['mc3._domainkey.shop.example'] = {txt: ['v=DKIM1; p=']};
		tools.advance(minute);
		await checks.checkDue();
		t.deepEqual(await selectors(), ['mc1', 'mc2']);

		const [rsa] = (await records()).filter(({key}) => key?.state === 'pending');
		delete zone['mc3._domainkey.shop.example'];
		publish(zone, rsa === undefined ? [] : [rsa]);
		tools.advance(minute);
		await checks.checkDue();
		t.deepEqual((await selectors()).toSorted(), ['mc2', 'mc3'], 'each key by itself');
		t.deepEqual(
			lines.filter(({event}) => event === 'domain_key').map(({selector}) => selector),
			['mc3'],
		);
		publish(
			zone,
			(await records()).filter(({key}) => key?.state === 'pending'),
		);
		tools.advance(minute);
		await checks.checkDue();
		t.deepEqual(await selectors(), ['mc3', 'mc4']);
		t.like(await rotate(domain, keys), {keys: [{selector: 'mc5'}, {selector: 'mc6'}]});

		delete zone['mc1._domainkey.shop.example'];
		zone['mc2._domainkey.shop.example'] = {txt: ['v=DKIM1; p=']};
		const kept = async () => (await listDkimKeys(store.reader, domain.id)).map(({selector}) => selector);
		tools.advance(13 * day);
		await checks.checkDue();
		t.deepEqual(await kept(), ['mc1', 'mc2', 'mc3', 'mc4', 'mc5', 'mc6']);
		zone['mc1._domainkey.shop.example'] = 'servfail';
		tools.advance(2 * day);
		await checks.checkDue();
		t.deepEqual(await kept(), ['mc1', 'mc3', 'mc4', 'mc5', 'mc6'], 'who knows whether mc1 is still there');
		delete zone['mc1._domainkey.shop.example'];
		tools.advance(day);
		await checks.checkDue();
		t.deepEqual(await kept(), ['mc3', 'mc4', 'mc5', 'mc6']);
	},
);

storeTest(test, 'uses the domain’s own return path while DNS shows its MX and SPF', async (t, store) => {
	const {tools, zone, checks, lines, read, records} = await prepare(t, store);
	const used = async () => {
		const {returnPathDomain} = await findDomainSigning(
			store.reader,
			(await read()).id,
			storeTime(tools.clock.now()),
		);
		return returnPathDomain;
	};
	publish(
		zone,
		(await records()).filter(({purpose}) => purpose === 'ownership' || purpose === 'return_path'),
	);
	await checks.checkDue();
	t.is(await used(), null, 'SPF is missing');
	publish(
		zone,
		(await records()).filter(({purpose}) => purpose === 'spf'),
	);
	tools.advance(minute);
	await checks.checkDue();
	t.is(await used(), 'bounce.shop.example');
	zone['bounce.shop.example'] = {mx: [[10, 'mx.other.example']]};
	tools.advance(day);
	await checks.checkDue();
	t.is(await used(), null, 'bounces would be lost');
	t.deepEqual(
		lines.filter(({event}) => event === 'domain_return_path').map(each => each.used),
		[true, false],
	);
});

storeTest(
	test,
	'another workspace’s records give a domain neither a return path nor a signing key',
	async (t, store) => {
		const {tools, write, addFrom, contextIn, zone, checks, records, selectors} = await prepare(t, store);
		publish(zone, await records());
		const other = await write(trx => createWorkspace(trx, tools, {name: 'other'}));
		const otherId = other?.id as string;
		const input = {name: 'shop.example', keys: await generateSigningKeys(), ownHosts: []};
		const added = await write(trx => performIn(addDomain, contextIn(trx, otherId), input));
		const signing = async () =>
			await findDomainSigning(store.reader, added.domain.id, storeTime(tools.clock.now()));
		await checks.checkDue();
		t.deepEqual(await selectors(), ['mc1', 'mc2'], 'the owner signs');
		t.deepEqual(await signing(), {keyIds: [], returnPathDomain: null, linkHost: null});
		// Messages of a sender verified by the operator are signed, as before anything is published.
		await addFrom('a@shop.example', true, otherId);
		tools.advance(minute);
		await checks.checkDue();
		t.like(await signing(), {keyIds: added.keys.map(({id}) => id), returnPathDomain: null});
	},
);

storeTest(test, 'each key signs once DNS has shown it', async (t, store) => {
	const {tools, zone, checks, records, selectors} = await prepare(t, store);
	const [ownership, rsa, , ...rest] = await records();
	publish(zone, ownership === undefined ? [] : [ownership, ...rest]);
	await checks.checkDue();
	t.deepEqual(await selectors(), []);
	publish(zone, rsa === undefined ? [] : [rsa]);
	tools.advance(minute);
	await checks.checkDue();
	t.deepEqual(await selectors(), ['mc1'], 'it is looked for again, though all else is there');
	delete zone['mc1._domainkey.shop.example'];
	tools.advance(day);
	await checks.checkDue();
	t.deepEqual(await selectors(), ['mc1']);
});

storeTest(test, 'only one of two nodes checks each domain', async (t, store) => {
	const {add, daemon, checks, checked, read} = await prepare(t, store);
	const names = ['shop.example', ...Array.from({length: 7}, (_, n) => `d${n}.example`)];
	for (const name of names.slice(1)) {
		await add(name);
	}
	const other = daemon();
	await Promise.all([checks.checkDue(), other.checkDue(), checks.checkDue()]);
	t.deepEqual(checked.map(({domain}) => domain.name).toSorted(), names.toSorted());
	t.is((await read('d6.example')).failures, 1);
});

storeTest(test, 'a check that is running when the daemon stops writes nothing', async (t, store) => {
	const {zone, checks, checked, read, records} = await prepare(t, store);
	publish(zone, await records());
	zone['_dmarc.shop.example'] = 'timeout';
	const looking = checks.checkDue();
	await checks.stop();
	t.is((await read()).state, 'pending');
	await looking;
	t.deepEqual(checked, []);
	t.is((await read()).state, 'pending');
});
