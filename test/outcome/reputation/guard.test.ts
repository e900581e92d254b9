import test from 'ava';
import {storeTime} from '../../../src/kit/time.ts';
import {defaultReputationLimits as limits, type ReputationLimits} from '../../../src/mail/reputation.ts';
import {type Judged, judge as judgeAs, startGuard} from '../../../src/outcome/reputation-guard.ts';
import {pauseByInstallation, resumeByInstallation} from '../../../src/resources/workspaces/rules.ts';
import {findWorkspace, type Workspace} from '../../../src/resources/workspaces/store.ts';
import {readGeneration} from '../../../src/store/changes.ts';
import {countHours} from '../../../src/store/reputation.ts';
import type {Store} from '../../../src/store/store.ts';
import {storeTest} from '../../helpers/databases.ts';
import {insertWorkspace} from '../../helpers/messages.ts';
import {testOperator, testTools} from '../../helpers/tools.ts';
import {waitFor} from '../../helpers/wait.ts';

const start = Date.parse('2026-06-09T10:15:30.123Z');
const hour = 3_600_000;
const none = {attempted: 0, hard: 0, delivered: 0, complained: 0};

async function count(store: Store, workspaceId: string, figures: Partial<typeof none>, at = start): Promise<void> {
	const counts = [{...none, ...figures, workspaceId, at: storeTime(at)}];
	await store.writer.transaction(trx => countHours(trx, counts));
}

const judge = (store: Pick<Store, 'reader' | 'writer'>, by: ReputationLimits, at: number) =>
	judgeAs(store, by, testTools(at));

const rowOf = async (store: Store, id: string) => (await findWorkspace(store.reader, id)) as Workspace;

storeTest(
	test,
	'pauses at 30 bounces of 200 and gives the figures as the reason, but not at 10 of 60',
	async (t, store) => {
		const {workspaceId: bad} = await insertWorkspace(store, 'bad');
		const {workspaceId: small} = await insertWorkspace(store, 'small');
		await count(store, bad, {attempted: 200, hard: 30});
		await count(store, small, {attempted: 60, hard: 10});
		const generation = await readGeneration(store.reader);
		const judged = await judge(store, limits, start);
		t.like(judged, {length: 1, 0: {kind: 'paused', workspaceId: bad, name: 'bad'}});
		t.like(await rowOf(store, bad), {
			paused_at: storeTime(start),
			pause_reason: 'reputation: 30 of 200 bounced in 24 hours (15%, limit 10%)',
		});
		t.is((await rowOf(store, small)).paused_at, null);
		t.like(await store.reader('audit'), {
			length: 1,
			0: {action: 'workspace.paused', target: bad, actor: testOperator.actor},
		});
		t.is(await readGeneration(store.reader), generation + 1, 'every process sees it');
		t.deepEqual(await judge(store, limits, start), [], 'once');
	},
);

storeTest(test, 'drops old figures from the windows', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await count(store, workspaceId, {attempted: 1000, hard: 100}, start);
	await count(store, workspaceId, {attempted: 500, hard: 0}, start + 30 * hour);
	t.deepEqual(await judge(store, limits, start + 170 * hour), [], 'a week later nobody speaks of it');
	t.like(await judge(store, limits, start + 40 * hour), {length: 1, 0: {kind: 'warned'}}, '100 of 1500 in 7 days');
});

storeTest(test, 'warns once and withdraws the warning when the figures are calm', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await count(store, workspaceId, {attempted: 200, hard: 12});
	t.like(await judge(store, limits, start), {length: 1, 0: {kind: 'warned'}});
	t.deepEqual(await judge(store, limits, start), []);
	t.like(await rowOf(store, workspaceId), {paused_at: null, reputation_warned_at: storeTime(start)});
	await count(store, workspaceId, {attempted: 60});
	t.deepEqual(await judge(store, limits, start), [], '4.6 % is not high, and not calm yet');
	await count(store, workspaceId, {attempted: 100});
	t.like(await judge(store, limits, start), {length: 1, 0: {kind: 'calm', findings: []}});
	t.is((await rowOf(store, workspaceId)).reputation_warned_at, null);
	t.deepEqual(await judge(store, limits, start + 169 * hour), []);
});

storeTest(test, 'withdraws a warning when its figures are gone', async (t, store) => {
	const {workspaceId} = await insertWorkspace(store);
	await count(store, workspaceId, {delivered: 1000, complained: 3});
	t.like(await judge(store, limits, start), {length: 1, 0: {kind: 'warned'}});
	t.like(await judge(store, limits, start + 169 * hour), {length: 1, 0: {kind: 'calm'}});
});

storeTest(test, 'keeps the reason of a manual pause', async (t, store) => {
	const tools = testTools(start);
	const {workspaceId} = await insertWorkspace(store);
	const row = await rowOf(store, workspaceId);
	await store.writer.transaction(trx => pauseByInstallation(trx, tools, row, 'under review'));
	await count(store, workspaceId, {attempted: 200, hard: 30});
	t.deepEqual(await judge(store, limits, start), []);
	t.is((await rowOf(store, workspaceId)).pause_reason, 'under review');
});

storeTest(test, 'starts over on resume: neither old figures nor late reports pause again', async (t, store) => {
	const tools = testTools(start);
	const {workspaceId} = await insertWorkspace(store);
	await count(store, workspaceId, {attempted: 200, hard: 30}, start - 1000);
	await judge(store, limits, start);
	await store.writer.transaction(trx => resumeByInstallation(trx, tools, workspaceId));
	t.like(await rowOf(store, workspaceId), {
		...{paused_at: null, pause_reason: null, reputation_since: storeTime(start), reputation_warned_at: null},
	});
	t.deepEqual(await judge(store, limits, start), []);
	await count(store, workspaceId, {attempted: 300, hard: 300}, start - 1);
	t.deepEqual(await judge(store, limits, start), [], 'first tried before');
	await count(store, workspaceId, {attempted: 199, hard: 199}, start);
	t.deepEqual(await judge(store, limits, start), []);
	await count(store, workspaceId, {attempted: 1}, start + 1);
	t.like(await judge(store, limits, start + 2), {length: 1, 0: {kind: 'paused'}});
});

storeTest(test, 'keeps the figures of a workspace that is resumed without being paused', async (t, store) => {
	const tools = testTools(start);
	const {workspaceId} = await insertWorkspace(store);
	await count(store, workspaceId, {attempted: 200, hard: 30});
	t.is((await store.writer.transaction(trx => resumeByInstallation(trx, tools, workspaceId))).reputation_since, null);
	t.like(await judge(store, limits, start), {length: 1, 0: {kind: 'paused'}});
});

storeTest(test, 'does not pause a workspace by older figures if it is resumed in the meantime', async (t, store) => {
	const tools = testTools(start);
	const {workspaceId} = await insertWorkspace(store);
	await count(store, workspaceId, {attempted: 200, hard: 30});
	await store
		.database('workspaces')
		.where({id: workspaceId})
		.update({reputation_warned_at: storeTime(start - 1000)});
	const {writer} = store;
	const slow: Store['writer'] = {
		...writer,
		async transaction(work) {
			await writer.transaction(trx => resumeByInstallation(trx, tools, workspaceId));
			return await writer.transaction(work);
		},
	};
	t.deepEqual(await judge({reader: store.reader, writer: slow}, limits, start), []);
	t.is((await rowOf(store, workspaceId)).paused_at, null);
});

storeTest(test, 'judges several workspaces, each by its own figures', async (t, store) => {
	const names = ['bounces', 'complains', 'warned', 'fine', 'silent'];
	const ids: string[] = [];
	for (const name of names) {
		ids.push((await insertWorkspace(store, name)).workspaceId);
	}
	const [bounces = '', complains = '', warned = '', fine = ''] = ids;
	await count(store, bounces, {attempted: 1000, hard: 150, delivered: 850});
	await count(store, complains, {attempted: 2000, hard: 0, delivered: 2000, complained: 20});
	await count(store, warned, {attempted: 300, hard: 20, delivered: 280});
	await count(store, fine, {attempted: 300, hard: 2, delivered: 298});
	const judged = await judge(store, limits, start);
	t.deepEqual(Object.fromEntries(judged.map(({name, kind}) => [name, kind])), {
		bounces: 'paused',
		complains: 'paused',
		warned: 'warned',
	});
	t.is(
		(await rowOf(store, complains)).pause_reason,
		'reputation: 20 of 2000 complained in 24 hours (1%, limit 0.5%)',
	);
});

storeTest(test, 'judges on start, then workspaces with new figures, and all others periodically', async (t, store) => {
	const tools = testTools(start);
	const [first, second, third] = ['first', 'second', 'third'].map(name => insertWorkspace(store, name));
	const ids = (await Promise.all([first, second, third])).map(found => found?.workspaceId ?? '');
	const bad = {attempted: 200, hard: 30};
	const told: Judged[] = [];
	await count(store, ids[0] as string, bad);
	const guard = startGuard({
		store,
		limits: () => limits,
		acting: tools,
		onJudged: judged => void told.push(judged),
		onError: error => t.fail(String(error)),
		restMs: 10,
		roundMs: 50,
	});
	t.teardown(() => guard.stop());
	await waitFor('the one before the start', () => told.length === 1);
	await count(store, ids[1] as string, bad);
	guard.counted([ids[1] as string]);
	await waitFor('the one counted', () => told.length === 2);
	await count(store, ids[2] as string, bad);
	await waitFor('the one that another process counted', () => told.length === 3);
	t.deepEqual(
		told.map(({workspaceId}) => workspaceId),
		ids,
	);
});

storeTest(test, 'judges no workspace while off, and all once on again', async (t, store) => {
	const tools = testTools(start);
	const {workspaceId} = await insertWorkspace(store);
	await count(store, workspaceId, {attempted: 200, hard: 30});
	const told: Judged[] = [];
	const settings: {limits: ReputationLimits | null; asked: number} = {limits: null, asked: 0};
	const guard = startGuard({
		store,
		limits() {
			settings.asked++;
			return settings.limits;
		},
		acting: tools,
		onJudged: judged => void told.push(judged),
		onError: error => t.fail(String(error)),
		restMs: 10,
		roundMs: 50,
	});
	t.teardown(() => guard.stop());
	await waitFor('its start and a round have passed', () => settings.asked >= 3);
	guard.counted([workspaceId]);
	const {asked} = settings;
	await waitFor('a look at what was counted has ended', () => settings.asked >= asked + 2);
	t.is((await rowOf(store, workspaceId)).paused_at, null);
	t.deepEqual(told, []);
	settings.limits = limits;
	await waitFor('it is on again', () => told.length === 1);
	t.like(told, [{kind: 'paused', workspaceId}]);
});
