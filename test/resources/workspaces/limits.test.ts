import test from 'ava';
import {generateSigningKeys} from '../../../src/compose/dkim.ts';
import {defaultLimits, type LimitName} from '../../../src/mail/workspace-limits.ts';
import {addAlert} from '../../../src/resources/alerts/rules.ts';
import {addDomain} from '../../../src/resources/domains/rules.ts';
import {createKey, revokeKey, rotateKey} from '../../../src/resources/keys/rules.ts';
import {type OperationContext, performIn} from '../../../src/resources/operation.ts';
import {addInbound} from '../../../src/resources/received/rules.ts';
import {checkLayoutRoom} from '../../../src/resources/templates/layouts.ts';
import {createTemplateRow, ensureSubmissionTemplate} from '../../../src/resources/templates/versions.ts';
import {createTopic, updateTopic} from '../../../src/resources/topics/rules.ts';
import {LimitReached} from '../../../src/resources/workspaces/limits.ts';
import {changeWorkspace, createWorkspace} from '../../../src/resources/workspaces/rules.ts';
import {countOfLimit} from '../../../src/store/limits.ts';
import type {Store} from '../../../src/store/store.ts';
import {storeTest} from '../../helpers/databases.ts';
import {testTools, testVault} from '../../helpers/tools.ts';

type Limits = {readonly [Name in LimitName]?: number | null};

async function prepare(store: Store, limits: Limits) {
	const tools = testTools();
	const write = store.writer.transaction;
	const workspace = await write(trx => createWorkspace(trx, tools, {name: 'acme', limits}));
	const workspaceId = workspace?.id as string;
	const context = {face: 'cli', workspaceId, mode: 'live', tools, vault: async () => testVault} as const;
	return {
		tools,
		write,
		workspaceId,
		contextIn: (trx: OperationContext['trx']): OperationContext => ({...context, trx}),
	};
}

storeTest(
	test,
	'rejects an object over the limit of a workspace with a conflict that states the limit',
	async (t, store) => {
		const keys = await generateSigningKeys();
		const {tools, write, workspaceId, contextIn} = await prepare(store, {
			...{topics: 2, inbound_addresses: 2, domains: 2, keys: 2, alerts: 2, templates: 2},
		});
		const adds: {readonly [Name in LimitName]?: (trx: OperationContext['trx'], n: number) => Promise<unknown>} = {
			topics: (trx, n) => performIn(createTopic, contextIn(trx), {code: `t${n}`, name: 'T'}),
			inbound_addresses: (trx, n) => performIn(addInbound, contextIn(trx), {address: `a${n}@in.example`}),
			domains: (trx, n) => performIn(addDomain, contextIn(trx), {name: `d${n}.example`, keys, ownHosts: []}),
			keys: (trx, n) => performIn(createKey, contextIn(trx), {name: `k${n}`, mode: 'live'}),
			alerts: (trx, n) => performIn(addAlert, contextIn(trx), {way: 'mail', target: `a${n}@ops.example`}),
			templates: (trx, n) => createTemplateRow(trx, tools, workspaceId, {id: null, name: `t${n}`}),
		};
		for (const [name, add] of Object.entries(adds)) {
			await write(trx => add(trx, 1));
			await write(trx => add(trx, 2));
			const error = await t.throwsAsync(
				write(trx => add(trx, 3)),
				{instanceOf: LimitReached},
				name,
			);
			t.is(error.code, 'conflict');
			t.is(error.message, `A workspace may have at most 2 ${name.replace('_', ' ')}. Remove one first.`);
			t.is((await countOfLimit(store.reader, workspaceId, name as LimitName, '')).count, 2);
		}
		const submission = await write(trx => ensureSubmissionTemplate(trx, tools, workspaceId));
		t.is(submission, 'tpl_submission', 'mail that is submitted is accepted all the same');
	},
);

storeTest(test, 'counts public topics separately, layouts separately, and only usable keys', async (t, store) => {
	const {tools, write, workspaceId, contextIn} = await prepare(store, {public_topics: 1, keys: 2, layouts: 1});
	const create = (code: string, isPublic: boolean) =>
		write(trx => performIn(createTopic, contextIn(trx), {code, name: 'T', public: isPublic}));
	const publish = (code: string) => write(trx => performIn(updateTopic, contextIn(trx), {code, public: true}));
	await create('a', true);
	await create('b', false);
	await t.throwsAsync(create('c', true), {instanceOf: LimitReached, message: /at most 1 public topics/});
	await t.throwsAsync(publish('b'), {instanceOf: LimitReached});
	await publish('a');

	const [first] = await Promise.all(
		['one', 'two'].map(name => write(trx => performIn(createKey, contextIn(trx), {name, mode: 'live'}))),
	);
	const id = first?.row.id as string;
	const rotate = (overlap: number) => write(trx => performIn(rotateKey, contextIn(trx), {id, overlap}));
	await t.throwsAsync(rotate(60_000), {instanceOf: LimitReached}, 'both would be in use');
	const rotated = await rotate(0);
	await write(trx => performIn(revokeKey, contextIn(trx), {id: rotated.row.id}));
	await write(trx => performIn(createKey, contextIn(trx), {name: 'three', mode: 'test'}));

	const layout = {kind: 'layout', name: 'main', files: {'body.html': '{{ content }}'}} as const;
	const others = [layout, {...layout, name: 'other'}];
	await checkLayoutRoom(store.reader, tools, workspaceId, {before: [], layouts: [layout]});
	const tooMany = checkLayoutRoom(store.reader, tools, workspaceId, {before: [], layouts: others});
	await t.throwsAsync(tooMany, {instanceOf: LimitReached, message: /at most 1 layouts/});
});

storeTest(test, 'enforces limits on concurrent additions from several nodes', async (t, store, engine) => {
	const {tools, write, workspaceId, contextIn} = await prepare(store, {topics: 3});
	const [connection] = store.writing;
	// Bypasses the writer, like transactions of other nodes.
	const work = (trx: OperationContext['trx'], n: number) =>
		performIn(createTopic, contextIn(trx), {code: `t${n}`, name: 'T'});
	const add = (n: number) =>
		engine === 'postgres' && connection ? connection.transaction(trx => work(trx, n)) : write(trx => work(trx, n));
	const ends = await Promise.allSettled(Array.from({length: 8}, (_, n) => add(n)));
	t.is(ends.filter(({status}) => status === 'fulfilled').length, 3);
	t.true(ends.every(end => end.status === 'fulfilled' || end.reason instanceof LimitReached));

	await write(trx => changeWorkspace(trx, tools, workspaceId, {limits: {topics: 4, domains: 5}}));
	await add(100);
	await write(trx => changeWorkspace(trx, tools, workspaceId, {limits: {topics: null}}));
	const {count, limit} = await countOfLimit(store.reader, workspaceId, 'topics', '');
	t.deepEqual([count, limit], [4, defaultLimits.topics]);
	t.is((await countOfLimit(store.reader, workspaceId, 'domains', '')).limit, 5);
});
