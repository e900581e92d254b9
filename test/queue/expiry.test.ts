import test from 'ava';
import {noOwnRetry} from '../../src/mail/retry.ts';
import type {Store} from '../../src/store/store.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace} from '../helpers/messages.ts';
import {changeRecipients, recipientRows} from '../helpers/recipient-rows.ts';
import {routeTo} from '../helpers/routes.ts';
import {type Deliver, now, resultOf, schedulerOf} from '../helpers/scheduler.ts';
import {waitFor} from '../helpers/wait.ts';

const hour = 3_600_000;
/** For a destination whose mail is never attempted. */
const lifetime = 5000;
const retry = (lifetimeMs: number) => ({schedule: {waits: [20], repeatLast: true}, lifetime: lifetimeMs});
const many = (n: number, domain: string) => Array.from({length: n}, (_, index) => `u${index}@${domain}`);

const statesOf = async (store: Store) =>
	Object.fromEntries((await recipientRows(store.reader)).map(row => [row.address, row.state]));
const detailsOf = async (store: Store) =>
	(await store.reader('events').where({type: 'bounced'})).map(({detail}) => JSON.parse(detail));

storeTest(test, 'ends a recipient past its lifetime without an attempt', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, ['late@a.test', 'tried@a.test'], {due: Date.now() - 2 * hour});
	await changeRecipients(store.database, all => all.where({address: 'tried@a.test'}), {
		...{state: 'sent', sent_at: now(), attempts: 2, last_category: 'rate', last_reply: '450 later'},
	});
	await insertMessages(store, workspaceId, ['one@a.test']);
	const {scheduler, recorded} = schedulerOf(store, async recipient => resultOf(recipient, {kind: 'delivered'}), {
		retry: () => retry(hour),
	});
	await scheduler.start();
	await waitFor('the ends', () => recorded.length === 3);
	await scheduler.stop();
	t.deepEqual(await statesOf(store), {
		'late@a.test': 'bounced',
		'tried@a.test': 'bounced',
		'one@a.test': 'delivered',
	});
	const details = await detailsOf(store);
	t.true(
		details.every(
			({type, category, enhanced}) => type === 'transient' && category === 'expired' && enhanced === '4.4.7',
		),
	);
	t.deepEqual(details.map(({reason}) => reason).sort(), [
		'4.4.7 Not delivered within the queue lifetime; last: 450 later',
		'4.4.7 Not delivered within the queue lifetime; no attempt was completed',
	]);
	t.deepEqual(
		(await recipientRows(store.reader).orderBy('id')).map(({attempts}) => attempts),
		[0, 2, 1],
	);
	t.deepEqual(await store.reader('suppressions'), []);
	t.is((await store.reader('attempts')).length, 1);
	t.is(
		Number((await store.reader('reputation_hours').sum({n: 'attempted'}))[0]?.n),
		1,
		'what was not tried does not count',
	);
});

storeTest(test, 'applies a destination’s own retry rules to attempted recipients and to others', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await store.writer.transaction(trx =>
		trx('suspensions').insert({destination: 'own.test', reason: 'asked', created_at: now()}),
	);
	await insertMessages(store, workspaceId, ['waits@own.test', 'waits@other.test', 'tried@short.test']);
	const own = {schedule: {waits: [20], repeatLast: false}, lifetime};
	const {scheduler, recorded} = schedulerOf(
		store,
		async recipient => resultOf(recipient, {kind: 'deferred', category: 'rate', reason: '450 later'}),
		{
			retry: () => ({schedule: {waits: [hour], repeatLast: true}, lifetime: 2 * hour}),
			readShortestLifetime: async () => lifetime,
			ownRetryOf: async destination => (destination === 'own.test' ? own : noOwnRetry),
			routeOf: async ({destination}) => ({
				...routeTo(destination),
				retry: destination === 'short.test' ? {...own, lifetime: null} : noOwnRetry,
			}),
		},
	);
	await scheduler.start();
	await waitFor('the ends', () => recorded.filter(address => address === 'tried@short.test').length === 2);
	await waitFor('the try', () => recorded.includes('waits@other.test'));
	await waitFor('the end', () => recorded.includes('waits@own.test'));
	await scheduler.stop();
	t.deepEqual(await statesOf(store), {
		'waits@own.test': 'bounced',
		'waits@other.test': 'sent',
		'tried@short.test': 'bounced',
	});
});

storeTest(test, 'ends a recipient at the end of its lifetime, whatever it waits for', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	const paused = await insertWorkspace(store, 'paused');
	const patient = await insertWorkspace(store, 'patient');
	await store.writer.transaction(async trx => {
		await trx('suspensions').insert({destination: 'suspended.test', reason: 'asked', created_at: now()});
		await trx('workspaces').where({id: paused.workspaceId}).update({paused_at: now()});
		await trx('workspaces').where({id: patient.workspaceId}).update({queue_lifetime_s: 3600});
	});
	await insertMessages(store, workspaceId, [
		...[...many(2, 'suspended.test'), ...many(3, 'stuck.test'), ...many(3, 'closed.test'), ...many(2, 'dns.test')],
		...['held@held.test'],
	]);
	await changeRecipients(store.database, all => all.where({address: 'held@held.test'}), {held_at: now()});
	await insertMessages(store, paused.workspaceId, ['u@paused.test']);
	await insertMessages(store, patient.workspaceId, ['patient@suspended.test']);
	const stuck: Array<() => void> = [];
	const closed = {deferred: 0};
	let lifetimeMs = hour;
	const deliver: Deliver = recipient => {
		if (recipient.destination === 'stuck.test') {
			return new Promise(resolve =>
				stuck.push(() =>
					resolve(resultOf(recipient, {kind: 'deferred', category: 'network', reason: 'stuck'})),
				),
			);
		}
		closed.deferred++;
		const deferred = resultOf(recipient, {kind: 'deferred', category: 'network', reason: 'no greeting'});
		return Promise.resolve({
			...deferred,
			attempts: deferred.attempts.map(one => ({...one, phase: 'greeting' as const, code: null})),
		});
	};
	const {scheduler} = schedulerOf(store, deliver, {
		retry: () => ({schedule: {waits: [600_000], repeatLast: true}, lifetime: lifetimeMs}),
		routeOf: ({destination}) =>
			destination === 'dns.test'
				? new Promise(() => {})
				: Promise.resolve(routeTo(destination, {failures: 1, connections: 1, startConnections: 1})),
	});
	await scheduler.start();
	// The lifetime ends only once every recipient waits where it should, which may take long on a busy machine.
	await waitFor('the tries', () => stuck.length === 1 && closed.deferred === 1);
	lifetimeMs = 1;
	await waitFor('the ends', async () => {
		const states = Object.values(await statesOf(store));
		return states.filter(state => state === 'bounced').length === 2 + 2 + 3 + 2;
	});
	const states = await statesOf(store);
	t.is(stuck.length, 1);
	t.is(closed.deferred, 1, 'the site was left alone after the first');
	t.deepEqual(
		Object.entries(states)
			.filter(([, state]) => state !== 'bounced')
			.map(([address]) => address)
			.sort(),
		['held@held.test', 'patient@suspended.test', 'u0@stuck.test', 'u@paused.test'],
	);
	stuck[0]?.();
	await waitFor('the try to end', async () => (await statesOf(store))['u0@stuck.test'] === 'bounced');

	await store.writer.transaction(async trx => {
		await trx('workspaces').update({paused_at: null});
		await trx('queue').update({held_at: null});
	});
	await waitFor(
		'the others',
		async () => Object.values(await statesOf(store)).filter(one => one !== 'bounced').length === 1,
	);
	t.is((await statesOf(store))['patient@suspended.test'], 'accepted');
	await scheduler.stop();
	t.is((await detailsOf(store)).length, 13 - 1);
	t.deepEqual(await store.reader('claims'), []);
});

storeTest(
	test,
	'ends a recipient at the deadline of its send, whatever it waits for, even if held or paused',
	async (t, store) => {
		const {workspaceId} = await insertWorkspace(store);
		const paused = await insertWorkspace(store, 'paused');
		await store.writer.transaction(async trx => {
			await trx('suspensions').insert({destination: 'suspended.test', reason: 'asked', created_at: now()});
			await trx('workspaces').where({id: paused.workspaceId}).update({paused_at: now()});
		});
		await insertMessages(store, workspaceId, [
			...['u@suspended.test', 'u@dns.test', 'held@held.test', 'later@suspended.test', 'tried@busy.test'],
			...many(150, 'suspended.test'),
		]);
		await insertMessages(store, paused.workspaceId, ['u@paused.test']);
		await changeRecipients(store.database, all => all.where({address: 'held@held.test'}), {held_at: now()});
		const {scheduler, recorded} = schedulerOf(
			store,
			async recipient => resultOf(recipient, {kind: 'deferred', category: 'rate', reason: '450 later'}),
			{
				retry: () => ({schedule: {waits: [hour], repeatLast: true}, lifetime: 2 * hour}),
				routeOf: ({destination}) => (destination === 'dns.test' ? new Promise(() => {}) : routeTo(destination)),
			},
		);
		await scheduler.start();
		await waitFor('a try', () => recorded.includes('tried@busy.test'));
		const expiresAt = now();
		await store.writer.transaction(async trx => {
			const expiring = trx('recipients').whereNot({address: 'later@suspended.test'});
			await trx('messages')
				.whereIn('id', expiring.clone().select('message_id'))
				.update({extras: JSON.stringify({expiresAt})});
			await trx('queue').whereIn('recipient_id', expiring.clone().select('id')).update({expires_at: expiresAt});
		});
		await waitFor('the ends', () => recorded.length === 1 + 155);
		await scheduler.stop();
		const {'later@suspended.test': later, ...ended} = await statesOf(store);
		t.is(later, 'accepted');
		t.deepEqual([...new Set(Object.values(ended))], ['bounced']);
		const details = await detailsOf(store);
		t.is(details.length, 155);
		t.true(details.every(({type, category}) => type === 'transient' && category === 'expired'));
		t.deepEqual([...new Set(details.map(({reason}) => reason))].sort(), [
			'4.4.7 Not delivered before it expired; last: 450 later',
			'4.4.7 Not delivered before it expired; no attempt was completed',
		]);
		t.deepEqual(await store.reader('suppressions'), []);
		t.deepEqual(await store.reader('claims'), []);
	},
);
