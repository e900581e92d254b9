import test from 'ava';
import {loadDestinations} from '../../src/config/destinations-file.ts';
import {storeTime} from '../../src/kit/time.ts';
import {idTime} from '../../src/mail/ids.ts';
import {parseRelayUrl} from '../../src/net/relay-url.ts';
import {utcDay} from '../../src/queue/pace/choose-route.ts';
import {WarmUpShares} from '../../src/queue/router.ts';
import {readComplaintFigures, readHostFigures} from '../../src/store/queue/sites.ts';
import type {Store} from '../../src/store/store.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace} from '../helpers/messages.ts';

const dayMs = 86_400_000;
const destinations = loadDestinations({destinationsFile: null, sourcePools: [], relays: []});
const parsed = parseRelayUrl('smtp://relay.example');
const relays = parsed.ok ? [parsed.relay] : [];

/** Records sessions with a mail server about recipients accepted now; returns that time. */
async function converse(store: Store, workspaceId: string, host: string, codes: ReadonlyArray<number | null>) {
	await insertMessages(
		store,
		workspaceId,
		codes.map((_, n) => `u${n}@${host}`),
	);
	const recipients: Array<{id: string}> = await store.reader('recipients').select('id').where('destination', host);
	const rows = recipients.map(({id}, n) => {
		const code = codes[n] ?? null;
		return {
			recipient_id: id,
			n: 1,
			position: 0,
			at: storeTime(idTime(id)),
			host,
			phase: 'dot',
			code,
			reply: 'x',
			ms: 1,
		};
	});
	await store.database('attempts').insert(rows);
	return idTime((recipients[0] as {id: string}).id);
}

const times = (n: number, code: number | null) => Array.from({length: n}, () => code);

storeTest(test, 'judges a day by its sessions with a provider and by all complaints', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const time = await converse(store, workspaceId, 'x.google.com', [...times(26, 250), ...times(3, 421), null]);
	await converse(store, workspaceId, 'mx.yahoodns.net', [...times(28, 250), ...times(3, 451)]);
	await converse(store, workspaceId, 'relay.example', times(30, 421));
	await converse(store, workspaceId, 'simulator.test', times(30, 421));
	const day = utcDay(time);
	const figures = await readHostFigures(store.reader, day);
	t.deepEqual(
		figures.toSorted((a, b) => (a.host < b.host ? -1 : 1)),
		[
			{host: 'mx.yahoodns.net', conversations: 31, deferred: 3},
			{host: 'relay.example', conversations: 30, deferred: 30},
			{host: 'x.google.com', conversations: 30, deferred: 4},
		],
	);
	t.deepEqual(await readHostFigures(store.reader, utcDay(time + dayMs)), []);

	// Today is the third day, after a good one and the one above.
	const start = utcDay(time - dayMs);
	let now = time + dayMs;
	const clock = {now: () => now, monotonic: () => now};
	const make = () =>
		new WarmUpShares({
			warmUps: [{address: '192.0.2.1', start, target: 1000}],
			relays,
			reader: store.reader,
			destinations: () => destinations,
			clock,
		});
	const shares = make();
	const today = await shares.today();
	t.is(today('192.0.2.1', 'google'), 100, 'deferrals over 10 %: no growth');
	t.is(today('192.0.2.1', 'yahoo'), 200);
	t.is(today('192.0.2.1', 'default'), 200, 'what a smarthost says counts for none');
	t.is(today('192.0.2.2', 'google'), null, 'not new');

	const usage = {workspace_id: workspaceId, day};
	await store.database('usage_days').insert([
		{...usage, status: 'delivered', n: 500},
		{...usage, status: 'complained', n: 1},
	]);
	t.deepEqual(await readComplaintFigures(store.reader, day), {delivered: 500, complained: 1});
	t.is((await make().today())('192.0.2.1', 'yahoo'), 100, 'complaints over 0.1 %: no growth');
	now += dayMs;
	t.is((await shares.today())('192.0.2.1', 'yahoo'), 400, 'a day that was read is not read again');
	now += 10 * dayMs;
	t.is((await shares.today())('192.0.2.1', 'google'), null, 'known by now');
});

storeTest(test, 'reads nothing if no source is new', async (t, store) => {
	const clock = {now: () => Date.now(), monotonic: () => 0};
	const reader = store.reader;
	const shares = new WarmUpShares({warmUps: [], relays: [], reader, destinations: () => destinations, clock});
	const today = await shares.today();
	t.is(today('192.0.2.1', 'google'), null);
});
