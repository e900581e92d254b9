import test from 'ava';
import {storeTime} from '../../src/kit/time.ts';
import {idFloor} from '../../src/mail/ids.ts';
import type {Store} from '../../src/store/store.ts';
import {countStats, type StatsQuery, statsGroups} from '../../src/store/usage.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace, newId} from '../helpers/messages.ts';
import {plansDuring, readsAll} from '../helpers/plans.ts';
import {changeRecipients, recipientRows} from '../helpers/recipient-rows.ts';

const hourMs = 3_600_000;
const now = Date.now();
const all = {by: null, from: now - hourMs, to: now + hourMs} as const;
const zeros = {accepted: 0, delivered: 0, bounced: 0, complained: 0, opened: 0, clicked: 0, errored: 0};

async function recipientOf(store: Store, messageId: string | undefined) {
	return await recipientRows(store.reader).where({message_id: messageId, role: 'to'}).first();
}

async function end(store: Store, messageId: string | undefined, state: string, detail?: object): Promise<void> {
	const {id} = await recipientOf(store, messageId);
	await changeRecipients(store.database, all => all.where({id}), {state, next_attempt_at: null});
	const at = storeTime(now);
	await store.database('events').insert({
		...{id: newId('evt'), message_id: messageId, recipient_id: id, type: state, occurred_at: at, recorded_at: at},
		detail: detail ? JSON.stringify(detail) : null,
	});
}

async function engage(store: Store, messageId: string | undefined, kind: string, url = ''): Promise<void> {
	const {id} = await recipientOf(store, messageId);
	const at = storeTime(now);
	const counts = {n: 2, machine_n: 1, first_at: at, last_at: at};
	await store.database('engagement').insert({recipient_id: id, kind, url, ...counts});
}

/** Two workspaces with messages of every outcome. */
async function prepare(store: Store) {
	const {workspaceId} = await insertWorkspace(store, 'own');
	const other = await insertWorkspace(store, 'other');
	const addresses = ['a@x.test', 'b@x.test', 'c@x.test', 'd@y.test', 'e@y.test', 'f@z.test', 'g@simulator.test'];
	const ids = await insertMessages(store, workspaceId, addresses);
	const [foreign] = await insertMessages(store, other.workspaceId, ['a@x.test']);
	await end(store, ids[0], 'delivered');
	await end(store, ids[1], 'complained');
	await end(store, ids[2], 'bounced', {category: 'mailbox_full'});
	// A later refusal has another category, but the first one ended the recipient.
	await end(store, ids[2], 'bounced', {category: 'spam'});
	await end(store, ids[3], 'bounced');
	await end(store, ids[4], 'errored', {reason: 'dropped'});
	await end(store, ids[5], 'errored', {reason: 'cancelled'});
	await end(store, ids[6], 'bounced', {category: 'unknown_user'});
	await end(store, foreign, 'delivered');
	await engage(store, ids[0], 'opened');
	await engage(store, ids[0], 'clicked', 'https://one.test');
	await engage(store, ids[0], 'clicked', 'https://two.test');
	await engage(store, ids[1], 'opened');
	await engage(store, ids[6], 'opened');
	await engage(store, foreign, 'opened');
	const cc = {
		...(await store
			.reader('recipients')
			.where({id: (await recipientOf(store, ids[5])).id})
			.first()),
		id: newId('rcp'),
		role: 'cc',
		state: 'bounced',
	};
	await store.database('recipients').insert(cc);
	await store.database('messages').where({id: ids[4]}).update({from_key: 'b@other.example', template_id: 'tpl_y'});
	return {workspaceId, otherId: other.workspaceId, ids};
}

storeTest(test, 'counts the To recipients of real messages by outcome', async (t, store) => {
	const {workspaceId, otherId} = await prepare(store);
	const total = {key: null, accepted: 6, delivered: 2, bounced: 2, complained: 1, opened: 2, clicked: 1, errored: 1};
	t.deepEqual(await countStats(store.reader, {...all, workspaceId}), [total]);
	const foreign = {...zeros, key: null, accepted: 1, delivered: 1, opened: 1};
	t.deepEqual(await countStats(store.reader, {...all, workspaceId: otherId}), [foreign]);
	t.deepEqual(await countStats(store.reader, all), [{...total, accepted: 7, delivered: 3, opened: 3}]);
	t.deepEqual(await countStats(store.reader, {...all, workspaceId: newId('ws')}), []);
});

storeTest(test, 'returns groups, largest first, each with its own counts', async (t, store) => {
	const {workspaceId, otherId} = await prepare(store);
	const by = async (group: StatsQuery['by'], more: Partial<StatsQuery> = {}) => {
		const rows = await countStats(store.reader, {...all, workspaceId, by: group, ...more});
		return rows.map(row => Object.fromEntries(Object.entries(row).filter(([, value]) => value !== 0)));
	};
	t.deepEqual(await by('destination'), [
		{key: 'x.test', accepted: 3, delivered: 2, bounced: 1, complained: 1, opened: 2, clicked: 1},
		{key: 'y.test', accepted: 2, bounced: 1, errored: 1},
		{key: 'z.test', accepted: 1},
	]);
	t.deepEqual(
		(await by('destination', {limit: 1})).map(({key}) => key),
		['x.test'],
	);
	t.deepEqual(await by('domain'), [
		{key: 'shop.example', accepted: 5, delivered: 2, bounced: 2, complained: 1, opened: 2, clicked: 1},
		{key: 'other.example', accepted: 1, errored: 1},
	]);
	t.deepEqual(await by('template'), [
		{key: 'tpl_x', accepted: 5, delivered: 2, bounced: 2, complained: 1, opened: 2, clicked: 1},
		{key: 'tpl_y', accepted: 1, errored: 1},
	]);
	t.deepEqual(await by('category'), [
		{key: 'mailbox_full', accepted: 1, bounced: 1},
		{key: 'undetermined', accepted: 1, bounced: 1},
	]);
	t.deepEqual(
		(await by('workspace', {workspaceId: undefined})).map(({key, accepted, opened}) => [key, accepted, opened]),
		[
			[workspaceId, 6, 2],
			[otherId, 1, 1],
		],
	);
});

storeTest(test, 'the range is half-open and applies to the time of acceptance', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const ids = await insertMessages(store, workspaceId, ['a@x.test', 'b@x.test', 'c@x.test']);
	for (const [index, at] of [now - 1, now, now + 1].entries()) {
		const id = idFloor('msg', at);
		await store
			.database('messages')
			.insert({...(await store.reader('messages').where({id: ids[index]}).first()), id});
		// The recipients of a message are created after it.
		const recipient = {message_id: id, id: idFloor('rcp', at + 1)};
		await changeRecipients(store.database, all => all.where({message_id: ids[index]}), recipient);
		await engage(store, id, 'opened');
	}
	const counted = async (from: number, to: number, own: boolean) => {
		const [row] = await countStats(store.reader, {...(own && {workspaceId}), by: null, from, to});
		return [row?.accepted, row?.opened];
	};
	for (const own of [true, false]) {
		t.deepEqual(await counted(now - 1, now + 2, own), [3, 3]);
		t.deepEqual(await counted(now, now + 1, own), [1, 1]);
		t.deepEqual(await counted(now + 2, now + 9, own), [undefined, undefined]);
	}
});

storeTest(test, 'statistics read the recipients of their days from an index', async (t, store, engine) => {
	const {workspaceId} = await prepare(store);
	for (const query of [{workspaceId}, {workspaceId: undefined}]) {
		for (const by of [null, ...statsGroups]) {
			const plans = await plansDuring(store, engine, () => countStats(store.reader, {...all, ...query, by}));
			t.is(plans.length, 2);
			for (const plan of plans) {
				t.false(readsAll(plan), plan);
				if (
					engine === 'postgres' &&
					query.workspaceId === undefined &&
					(by === 'domain' || by === 'template')
				) {
					t.regex(
						plan,
						/messages_pkey[^\n]*\n\s+Index Cond: \([^\n]*id >= /,
						'of messages those of the range',
					);
				}
				t.regex(
					plan,
					engine === 'sqlite'
						? /SEARCH [mre] USING (?:\w+ )*INDEX \w+ \((?:workspace_id=\? AND id>\? AND id<\?|(?:recipient|message)_id>\? AND (?:recipient|message)_id<\?)\)/
						: /Index Cond: \([^\n]*(?:message_id|id)\)?(?:::text)? >= /,
				);
			}
		}
	}
});
