import test from 'ava';
import {incidentList} from '../../src/dashboard/incidents.ts';
import {storeTime} from '../../src/kit/time.ts';
import {readIncidents} from '../../src/resources/alerts/incidents.ts';
import {findWorkspace, type Workspace} from '../../src/resources/workspaces/store.ts';
import type {Store} from '../../src/store/store.ts';
import {storeTest} from '../helpers/databases.ts';
import {insertMessages, insertWorkspace} from '../helpers/messages.ts';

const now = Date.now();
const at = (before: number) => storeTime(now - before);
const minute = 60_000;

/** Makes the providers of destinations back off, with messages that wait for them. */
async function backOff(store: Store, workspaceId: string, sites: ReadonlyArray<readonly [string, object]>) {
	for (const [destination, more] of sites) {
		await store.database('sites').insert({
			...{site: `mx.${destination}`, provider: 'default', waits_for: 'suspension', reason: '421 busy'},
			...{suspended_until: at(-10 * minute), step: 1, window: 1, updated_at: at(0), ...more},
		});
		await store.database('lane_waits').insert({
			...{destination, workspace_id: workspaceId, node: 'n', site: `mx.${destination}`, waits_for: 'suspension'},
			...{detail: '{}', updated_at: at(0)},
		});
	}
}

async function addCondition(store: Store, kind: string, subject: string, workspaceId: string | null = null) {
	await store.database('conditions').insert({
		...{kind, subject, workspace_id: workspaceId, detail: `${kind} of ${subject}`, fix: 'look'},
		...{began_at: at(minute), seen_at: at(0), announced_at: at(minute), ended_at: null, rings: 1},
	});
}

storeTest(
	test,
	'lists what is wrong in everything the user may see, what delays most messages first',
	async (t, store) => {
		const find = async (id: string) => (await findWorkspace(store.reader, id)) as Workspace;
		const {workspaceId: shop} = await insertWorkspace(store, 'shop');
		const {workspaceId: other} = await insertWorkspace(store, 'other');
		const ofOperator = async () =>
			readIncidents(store.reader, {workspace: await find(shop), everywhere: true, failedChecks: [], now});
		t.regex(incidentList(await ofOperator(), now).markup, /all well/);

		await insertMessages(store, shop, ['a@busy.example']);
		await insertMessages(store, other, ['a@blocks.example', 'b@blocks.example']);
		await backOff(store, shop, [['busy.example', {}]]);
		await backOff(store, other, [['blocks.example', {reason: '550 5.7.1 S3150', advice: 'ask them'}]]);
		await addCondition(store, 'provider_blocks', 'default');
		await addCondition(store, 'destination_failing', 'mx.busy.example');
		await addCondition(store, 'disk', 'vm');
		await addCondition(store, 'webhook_dead', 'whk_1', other);
		const all = await ofOperator();
		t.deepEqual(
			all.map(({label, waiting, owner, to}) => [label, waiting, owner, to]),
			[
				['a provider blocks our address', 2, 'us', `/w/${other}/queue/blocks.example`],
				['a destination has accepted no mail for a while', 1, 'the provider', `/w/${shop}/queue/busy.example`],
				['the disk is nearly full', null, null, '/health'],
				['a webhook endpoint accepts no events', null, 'the endpoint’s owner', `/w/${other}/webhooks/whk_1`],
			],
		);
		t.is(all[1]?.since, at(minute), 'the alert says when it began');
		const {markup} = incidentList(all, now, 2);
		t.regex(markup, /2 messages wait · .*for us to fix/);
		t.regex(markup, /550 5\.7\.1 S3150/);
		t.regex(markup, /To fix: .*ask them/);
		t.regex(markup, /href="\/alerts">2 more/);

		const own = await readIncidents(store.reader, {
			workspace: await find(shop),
			everywhere: false,
			failedChecks: [],
			now,
		});
		t.deepEqual(
			own.map(({label}) => label),
			['a destination has accepted no mail for a while'],
			'a user of one workspace sees neither the installation nor others',
		);
		t.deepEqual(await readIncidents(store.reader, {workspace: null, everywhere: false, failedChecks: [], now}), []);
	},
);

storeTest(test, 'a paused workspace, a suspended destination and a failing check are listed once', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store, 'shop');
	await insertMessages(store, workspaceId, ['a@slow.example']);
	const pause = {paused_at: at(minute), pause_reason: 'too <b>many</b> bounces', paused_by: 'operator'};
	await store.database('workspaces').where({id: workspaceId}).update(pause);
	const suspension = {destination: 'slow.example', reason: 'their wish', created_at: at(0)};
	await store.database('suspensions').insert(suspension);
	await store.database('suspensions').insert({...suspension, destination: 'idle.example'});
	const workspace = (await findWorkspace(store.reader, workspaceId)) as Workspace;
	const failed = {check: 'reverse-dns', detail: '192.0.2.1 has <no> name', fix: ''};
	const read = () => readIncidents(store.reader, {workspace, everywhere: true, failedChecks: [failed], now});
	const labels = async () => (await read()).map(({label}) => label);
	const expected = ['a destination is suspended', 'a check fails', 'a workspace is paused'];
	t.deepEqual((await labels()).toSorted(), expected.toSorted());
	await addCondition(store, 'workspace_paused', workspaceId, workspaceId);
	t.deepEqual((await labels()).toSorted(), expected.toSorted());
	const {markup} = incidentList(await read(), now);
	t.regex(markup, /reverse-dns: .*192\.0\.2\.1.*&lt;no&gt;.*href="\/health\/checks"/s);
	t.notRegex(markup, /idle\.example/);
});
