import test, {type ExecutionContext} from 'ava';
import pino from 'pino';
import {storeTime} from '../../../src/kit/time.ts';
import type {AlertEvent, AlertMessage, Condition} from '../../../src/mail/alert.ts';
import {addAlert, muteAlert} from '../../../src/resources/alerts/rules.ts';
import {
	type Alert,
	beginAttempt,
	listAlerts,
	listDueMessages,
	queueMessage,
} from '../../../src/resources/alerts/store.ts';
import {AlertWatch} from '../../../src/resources/alerts/watch.ts';
import {type InputOf, performIn, Refused} from '../../../src/resources/operation.ts';
import {createWorkspace} from '../../../src/resources/workspaces/rules.ts';
import type {Store} from '../../../src/store/store.ts';
import {storeTest} from '../../helpers/databases.ts';
import {testTools, testVault} from '../../helpers/tools.ts';

const minute = 60_000;
const hour = 60 * minute;
const disk: Condition = {kind: 'disk', subject: 'a', workspaceId: null, detail: 'full', fix: 'empty it'};

async function startWatching(t: ExecutionContext, store: Store) {
	const tools = testTools();
	const write = store.writer.transaction;
	const acme = (await write(trx => createWorkspace(trx, tools, {name: 'acme'})))?.id as string;
	const acting = {face: 'cli', mode: 'live', tools, vault: async () => testVault} as const;
	const lab = {wrong: [] as readonly Condition[], failure: null as string | null};
	const sent: Array<{alert: Alert; message: AlertMessage}> = [];
	/** `agreeing` is the connection that the node writes with. */
	const createNode = (agreeing = store.agreeing) =>
		new AlertWatch({
			...{store: {reader: store.reader, agreeing}, clock: tools.clock, newId: tools.newId},
			logger: pino({enabled: false}),
			read: async kind => lab.wrong.filter(one => one.kind === kind),
			async send(alert, message) {
				if (lab.failure === null) {
					sent.push({alert, message});
				}
				return lab.failure;
			},
			storeFailed: error => t.fail(String(error)),
		});
	const add = async (workspaceId: string | null, input: Partial<InputOf<typeof addAlert.input>> = {}) => {
		const target = {way: 'mail', target: 'ops@shop.example', ...input} as const;
		return (await write(trx => performIn(addAlert, {...acting, workspaceId, trx}, target))).row;
	};
	const mute = (id: string, span: string) =>
		write(trx => performIn(muteAlert, {...acting, workspaceId: null, trx}, {id, for: span}));
	/** Queues a message as nodes do, and returns its id. */
	const queue = async (alertId: string, event: AlertEvent = 'began') => {
		const [id, at] = [tools.newId('alm'), storeTime(tools.clock.now())];
		const message = {id, event, at, conditions: [{...disk, since: at}]};
		await write(trx => queueMessage(trx, alertId, message));
		return id;
	};
	const said = () =>
		sent.splice(0).map(({message}) => `${message.event} ${message.conditions.map(one => one.detail)}`);
	return {tools, acme, write, lab, sent, createNode, add, mute, queue, said};
}

storeTest(test, 'only one of two nodes sends, once when a condition begins and once when it ends', async (t, store) => {
	const {tools, lab, createNode, add, said} = await startWatching(t, store);
	await add(null);
	const nodes = [createNode(), createNode(store.writer)];
	const pass = async (milliseconds: number, looks: number) => {
		for (let n = 0; n < looks; n++) {
			tools.advance(milliseconds / looks);
			await Promise.all(nodes.map(node => node.check()));
		}
		return said();
	};
	t.deepEqual(await pass(minute, 2), []);
	lab.wrong = [disk];
	t.deepEqual(await pass(10_000, 1), ['began full']);
	t.deepEqual(await pass(72 * hour, 72), []);
	nodes.splice(0, 2, createNode(), createNode(store.writer));
	t.deepEqual(await pass(hour, 6), [], 'after a restart of both');
	lab.wrong = [];
	t.deepEqual(await pass(10_000, 1), []);
	t.deepEqual(await pass(10 * minute, 2), ['ended full']);
	t.deepEqual(await pass(72 * hour, 72), []);
	t.deepEqual(await store.reader('conditions').select('kind'), []);
});

storeTest(test, 'each alert gets its own kinds and workspace, and nothing while muted', async (t, store) => {
	const {tools, acme, lab, sent, createNode, add, mute} = await startWatching(t, store);
	const all = (await add(null)).id;
	const disks = (await add(null, {on: ['disk']})).id;
	const own = (await add(acme, {way: 'webhook', target: 'https://shop.example'})).id;
	const quiet = (await add(null)).id;
	await mute(quiet, '2h');
	lab.wrong = [disk, {...disk, kind: 'domain_failed', subject: 'd', workspaceId: acme, detail: 'gone'}];
	const node = createNode();
	await node.check();
	const heard = () =>
		Object.fromEntries(sent.splice(0).map(({alert, message}) => [alert.id, message.conditions.length]));
	t.deepEqual(heard(), {[all]: 2, [disks]: 1, [own]: 1});
	await mute(quiet, '0');
	lab.wrong = [];
	tools.advance(10 * minute);
	await node.check();
	t.deepEqual(heard(), {[all]: 2, [disks]: 1, [own]: 1, [quiet]: 2});
});

storeTest(test, 'retries while the target is down for an hour, and gives up after three attempts', async (t, store) => {
	const {tools, lab, createNode, add, said} = await startWatching(t, store);
	await add(null);
	const looks = async (milliseconds: number) => {
		for (let left = milliseconds; left > 0; left -= 5 * minute) {
			await createNode().check();
			tools.advance(5 * minute);
		}
	};
	lab.failure = 'no host';
	lab.wrong = [disk];
	await looks(5 * minute);
	t.is((await listAlerts(store.reader, null))[0]?.error, 'no host');
	lab.wrong = [];
	const node = createNode();
	tools.advance(5 * minute);
	await node.check();
	await looks(50 * minute);
	t.deepEqual(said(), []);
	lab.failure = null;
	await looks(hour);
	t.deepEqual(said(), ['began full', 'ended full']);
	const [alert] = await listAlerts(store.reader, null);
	t.deepEqual([alert?.error, alert?.sent_at !== null], [null, true]);

	lab.failure = 'no host';
	lab.wrong = [disk];
	await looks(95 * minute);
	lab.failure = null;
	await looks(2 * hour);
	t.deepEqual(said(), []);
	t.is((await listAlerts(store.reader, null))[0]?.error, 'no host');
	t.deepEqual(await store.reader('alert_messages').select('id'), []);
});

storeTest(test, 'another node sends the message of a node that dies during an attempt', async (t, store) => {
	const {tools, write, createNode, add, queue, said} = await startWatching(t, store);
	const {id} = await add(null);
	await queue(id);
	const node = createNode();
	for (let n = 0; n < 3; n++) {
		const now = tools.clock.now();
		const [due] = await listDueMessages(store.reader, storeTime(now));
		if (due === undefined) {
			t.fail('no message is due');
			return;
		}
		const begin = () => write(trx => beginAttempt(trx, due, storeTime(now + 10 * minute)));
		t.deepEqual([await begin(), await begin()], [true, false]);
		await node.check();
		t.deepEqual(said(), []);
		tools.advance(10 * minute);
	}
	await node.check();
	t.deepEqual(said(), ['began full']);
	tools.advance(2 * hour);
	await node.check();
	t.deepEqual(said(), []);
});

storeTest(test, 'failing messages do not delay new ones or other workspaces', async (t, store) => {
	const {tools, acme, write, add, queue} = await startWatching(t, store);
	const [noisy, quiet] = [
		(await add(null)).id,
		(await add(acme, {way: 'webhook', target: 'https://shop.example'})).id,
	];
	const now = storeTime(tools.clock.now());
	for (let n = 0; n < 30; n++) {
		await queue(noisy);
	}
	const failed = await queue(quiet);
	await write(trx => trx('alert_messages').update({attempts: 1}));
	const fresh = await queue(noisy);
	const due = await listDueMessages(store.reader, now);
	t.is(due.length, 20);
	t.is(due[0]?.id, fresh);
	t.true(due.some(({id}) => id === failed));
});

storeTest(test, 'ends the conditions and sends the messages left by the previous version', async (t, store) => {
	const {tools, lab, createNode, add, queue, said} = await startWatching(t, store);
	const {id} = await add(null);
	await queue(id);
	await queue(id, 'digest');
	await store.database('alert_messages').update({attempts: 12});
	const at = storeTime(tools.clock.now() - 48 * hour);
	const times = {began_at: at, seen_at: at, announced_at: at, ended_at: null};
	const {workspaceId: workspace_id, ...rest} = disk;
	await store.database('conditions').insert({...rest, workspace_id, ...times, rings: 1});
	const nodes = [createNode(), createNode()];
	lab.wrong = [disk];
	const pass = async (milliseconds: number) => {
		tools.advance(milliseconds);
		await Promise.all(nodes.map(node => node.check()));
		return said();
	};
	t.deepEqual(await pass(minute), ['began full', 'digest full']);
	lab.wrong = [];
	t.deepEqual(await pass(hour), ['ended full']);
	t.deepEqual(await pass(hour), []);
});

storeTest(test, 'an alert of a workspace covers only that workspace and cannot set a sender', async (t, store) => {
	const {add, acme} = await startWatching(t, store);
	const refused = {instanceOf: Refused};
	await t.throwsAsync(add(acme, {on: ['disk']}), {...refused, message: /disk, which concerns the installation/});
	await t.throwsAsync(add(acme, {from: 'boss@other.example'}), {...refused, message: /from must not be set/});
	t.is((await add(null, {from: 'boss@other.example'})).sender, 'boss@other.example');
	const slack = await add(null, {way: 'slack', target: 'https://hooks.slack.com/services/T0/B0/secret'});
	t.is(slack.target, 'https://hooks.slack.com/…');
	t.is(testVault.open(slack.id, slack.secret ?? ''), 'https://hooks.slack.com/services/T0/B0/secret');
});
