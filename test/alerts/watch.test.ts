import test, {type ExecutionContext} from 'ava';
import pino from 'pino';
import {createWorkspace} from '../../src/admin/workspaces.ts';
import {AlertWatch} from '../../src/alerts/watch.ts';
import type {AlertMessage, AlertWay, Condition} from '../../src/mail/alert.ts';
import {addAlert, muteAlert} from '../../src/ops/alerts.ts';
import {performIn, Refused} from '../../src/ops/operation.ts';
import {
	type Alert,
	deleteAlert,
	listAlerts,
	postponeMessage,
	queueMessage,
	takeMessages,
} from '../../src/store/alerts.ts';
import type {Store} from '../../src/store/store.ts';
import {storeTest} from '../helpers/databases.ts';
import {testTools, testVault} from '../helpers/tools.ts';

const minute = 60_000;
const hour = 60 * minute;
const disk: Condition = {kind: 'disk', subject: 'a', workspaceId: null, detail: 'full', fix: 'empty it'};

async function startWatching(t: ExecutionContext, store: Store) {
	const tools = testTools();
	let wrong: readonly Condition[] = [];
	let failure: string | null = null;
	const sent: Array<{alert: Alert; message: AlertMessage}> = [];
	const looks = (['disk', 'domain_failed'] as const).map(kind => ({
		kind,
		look: async () => wrong.filter(one => one.kind === kind),
	}));
	const watch = () =>
		new AlertWatch({
			...{store, clock: tools.clock, newId: tools.newId, looks, logger: pino({enabled: false})},
			async send(alert, message) {
				if (failure === null) {
					sent.push({alert, message});
				}
				return failure;
			},
			storeFailed: error => t.fail(String(error)),
		});
	const write = store.writer.transaction;
	const scene = {face: 'cli', mode: 'live', tools, vault: async () => testVault} as const;
	const acme = (await write(trx => createWorkspace(trx, tools, {name: 'acme'})))?.id as string;
	return {
		...{tools, watch, sent, acme, write, scene},
		set: (conditions: readonly Condition[]) => {
			wrong = conditions;
		},
		fail: (error: string | null) => {
			failure = error;
		},
		add: (
			workspaceId: string | null,
			input: {way?: AlertWay; target?: string; on?: readonly Condition['kind'][]} = {},
		) =>
			write(trx =>
				performIn(addAlert, {...scene, workspaceId, trx}, {way: 'mail', target: 'ops@shop.example', ...input}),
			),
		mute: (id: string, span: string) =>
			write(trx => performIn(muteAlert, {...scene, workspaceId: null, trx}, {id, for: span})),
		said: () =>
			sent.splice(0).map(({message: {event, conditions}}) => `${event} ${conditions.map(one => one.detail).join()}`),
	};
}

storeTest(test, 'of two nodes one sends: when a condition begins, when it ends, and once a day', async (t, store) => {
	const {tools, watch, set, add, said} = await startWatching(t, store);
	await add(null);
	const nodes = [watch(), watch()];
	const look = () => Promise.all(nodes.map(node => node.look()));
	/** Time passes in looks; what is said on the way. */
	const pass = async (milliseconds: number) => {
		for (let left = milliseconds; left > 0; left -= 10 * minute) {
			tools.advance(Math.min(left, 10 * minute));
			await look();
		}
		return said();
	};
	await look();
	t.deepEqual(said(), []);
	set([disk]);
	t.deepEqual(await pass(10_000), ['began full']);
	t.deepEqual(await pass(22 * hour), []);
	t.deepEqual(await pass(3 * hour), ['digest full']);
	t.deepEqual(await pass(22 * hour), []);
	t.deepEqual(await pass(3 * hour), ['digest full']);
	set([]);
	t.deepEqual(await pass(10_000), []);
	t.deepEqual(await pass(10 * minute), ['ended full']);
	t.deepEqual(await pass(48 * hour), []);
});

storeTest(test, 'each alert gets its own: by kind, by workspace, not while it is muted', async (t, store) => {
	const {tools, watch, set, add, mute, sent, acme, write} = await startWatching(t, store);
	const all = (await add(null)).row.id;
	const disks = (await add(null, {on: ['disk']})).row.id;
	const own = (await add(acme)).row.id;
	const quiet = (await add(null)).row.id;
	await mute(quiet, '2h');
	const domain: Condition = {...disk, kind: 'domain_failed', subject: 'd', workspaceId: acme, detail: 'gone'};
	set([disk, domain]);
	const node = watch();
	await node.look();
	const heard = () =>
		Object.fromEntries(
			sent
				.splice(0)
				.filter(({message}) => message.event !== 'confirm')
				.map(({alert, message}) => [alert.id, message.conditions.length]),
		);
	t.deepEqual(heard(), {[all]: 2, [disks]: 1, [own]: 1});
	await mute(quiet, '0');
	set([]);
	tools.advance(10 * minute);
	await node.look();
	t.deepEqual(heard(), {[all]: 2, [disks]: 1, [own]: 1, [quiet]: 2});
	await write(trx => deleteAlert(trx, all));
	t.is((await listAlerts(store.reader, acme)).length, 1);
});

storeTest(
	test,
	'a message that does not go out is tried again, by another process too, and given up after a day',
	async (t, store) => {
		const {tools, watch, set, fail, add, said} = await startWatching(t, store);
		await add(null);
		set([disk]);
		fail('no host');
		await watch().look();
		t.is((await listAlerts(store.reader, null))[0]?.error, 'no host');
		tools.advance(minute);
		fail(null);
		const next = watch();
		await next.look();
		t.deepEqual(said(), ['began full']);
		const [alert] = await listAlerts(store.reader, null);
		t.deepEqual([alert?.error, alert?.sent_at !== null], [null, true]);

		fail('no host');
		set([]);
		for (let n = 0; n < 30; n++) {
			tools.advance(hour);
			await next.look();
		}
		fail(null);
		tools.advance(hour);
		await next.look();
		t.deepEqual(said(), [], 'what is a day old is no news');
		t.deepEqual(await store.reader('alert_messages').select('id'), []);
	},
);

storeTest(test, 'a process that dies while it sends leaves the message to another', async (t, store) => {
	const {tools, watch, set, add, said} = await startWatching(t, store);
	await add(null);
	set([disk]);
	// Taken, and never sent.
	const [alert] = await listAlerts(store.reader, null);
	const now = new Date(tools.clock.now()).toISOString();
	const message = {id: tools.newId('alm'), event: 'began', at: now, conditions: [{...disk, since: now}]} as const;
	await store.writer.transaction(trx => queueMessage(trx, alert?.id ?? '', message, now));
	const until = new Date(tools.clock.now() + 5 * minute).toISOString();
	t.is((await store.writer.transaction(trx => takeMessages(trx, now, until))).length, 1);
	t.is((await store.writer.transaction(trx => takeMessages(trx, now, until))).length, 0);
	set([]);
	const node = watch();
	await node.look();
	t.deepEqual(said(), []);
	tools.advance(5 * minute);
	await node.look();
	t.deepEqual(said(), ['began full']);
});

storeTest(test, 'messages that fail, however many, do not keep new ones waiting', async (t, store) => {
	const {tools, add} = await startWatching(t, store);
	const {id: alertId} = (await add(null)).row;
	const now = new Date(tools.clock.now()).toISOString();
	const queue = async () => {
		const id = tools.newId('alm');
		const message = {id, event: 'began', at: now, conditions: [{...disk, since: now}]} as const;
		await store.writer.transaction(trx => queueMessage(trx, alertId, message, now));
		return id;
	};
	for (let n = 0; n < 30; n++) {
		const id = await queue();
		await store.writer.transaction(trx => postponeMessage(trx, {id, attempts: 3}, now));
	}
	const fresh = await queue();
	const [first] = await store.writer.transaction(trx =>
		takeMessages(trx, now, new Date(tools.clock.now() + minute).toISOString()),
	);
	t.is(first?.id, fresh);
});

storeTest(test, 'an alert of a workspace is about its own, and mails in no other name', async (t, store) => {
	const {add, acme, write, scene} = await startWatching(t, store);
	await t.throwsAsync(add(acme, {on: ['disk']}), {
		instanceOf: Refused,
		message: /disk, which is about the installation/,
	});
	const from = {way: 'mail', target: 'ops@shop.example', from: 'boss@other.example'} as const;
	const forged = write(trx => performIn(addAlert, {...scene, workspaceId: acme, trx}, from));
	await t.throwsAsync(forged, {instanceOf: Refused, message: /from must not be set/});
	const {row} = await write(trx => performIn(addAlert, {...scene, workspaceId: null, trx}, from));
	t.is(row.sender, 'boss@other.example');
	const {row: slack} = await add(null, {way: 'slack', target: 'https://hooks.slack.com/services/T0/B0/secret'});
	t.is(slack.target, 'https://hooks.slack.com/…');
	t.is(testVault.open(slack.id, slack.secret ?? ''), 'https://hooks.slack.com/services/T0/B0/secret');
});
