import test from 'ava';
import {type InputOf, type OperationContext, performIn, Refused} from '../../../src/resources/operation.ts';
import {createTemplate, removeTemplate, rollBackTemplate} from '../../../src/resources/templates/rules.ts';
import {
	findTemplate,
	findVersion,
	insertVersion,
	listTemplates,
	listVariants,
	listVersions,
	lookUpTemplate,
	type TemplateVariant,
} from '../../../src/resources/templates/store.ts';
import {
	addVersion,
	findConflict,
	isTooLargeVersion,
	saveTemplate,
	toFingerprint,
} from '../../../src/resources/templates/versions.ts';
import {createWorkspace} from '../../../src/resources/workspaces/rules.ts';
import type {Store} from '../../../src/store/store.ts';
import {sqliteTest, storeTest} from '../../helpers/databases.ts';
import {testTools, testVault} from '../../helpers/tools.ts';

const variant: TemplateVariant = {
	locale: null,
	subject: 'Hello',
	kind: 'html',
	source: '<p>Hello</p>',
	text_source: null,
	own_source: null,
	own_text_source: null,
	html: '<p>Hello</p>',
	text: 'Hello',
};

async function prepare(store: Store) {
	const tools = testTools();
	const write = store.writer.transaction;
	const workspaceId = (await write(trx => createWorkspace(trx, tools, {name: 'acme'})))?.id as string;
	const save = (name: string, variants: readonly TemplateVariant[], sample: string | null = null) =>
		write(trx => saveTemplate(trx, tools, {workspaceId, name, variants, sample}));
	const contextIn = (trx: OperationContext['trx']): OperationContext => ({
		...({face: 'cli', mode: 'live'} as const),
		...{workspaceId, tools, trx, vault: async () => testVault},
	});
	return {tools, write, workspaceId, save, contextIn};
}

sqliteTest(test, 'numbers versions from 1 and creates none for an unchanged source', async (t, store) => {
	const {workspaceId, save} = await prepare(store);
	const german = {...variant, locale: 'de', subject: 'Hallo'};
	const first = await save('receipt', [variant, german]);
	t.like(first, {name: 'receipt', version: 1, changed: true});
	t.deepEqual(await save('receipt', [german, variant]), {...first, changed: false}, 'order says nothing');
	t.like(await save('receipt', [variant]), {id: first.id, version: 2, changed: true});
	t.like(await save('receipt', [variant, german]), {version: 3, changed: true}, 'an older source is new again');

	const template = await findTemplate(store.reader, workspaceId, {id: first.id});
	t.is(template?.latest_version, 3);
	t.deepEqual(
		(await listVersions(store.reader, first.id)).map(({version}) => version),
		[3, 2, 1],
	);
	const oldest = await findVersion(store.reader, first.id, 1);
	t.deepEqual(await listVariants(store.reader, oldest?.id as string), [variant, german]);
});

storeTest(test, 'refuses one of two saves with the same version number', async (t, store) => {
	const {tools, write, save} = await prepare(store);
	const {id} = await save('receipt', [variant]);
	const version = {
		id: tools.newId('tpv'),
		template_id: id,
		version: 1,
		fingerprint: 'x',
		sample: null,
		layout: null,
		created_at: '2026',
	};
	t.false(await write(trx => insertVersion(trx, version, [variant])));
	t.false(await write(trx => insertVersion(trx, {...version, version: 3}, [variant])));
	t.is((await listVersions(store.reader, id)).length, 1);
});

storeTest(test, 'reports a conflict to the second of two edits of the same version', async (t, store) => {
	const {tools, workspaceId, save} = await prepare(store);
	const {id} = await save('receipt', [variant]);
	const add = (after: number | null, more: {sample?: string | null} = {}) =>
		store.database.transaction(trx =>
			addVersion(trx, tools, {workspaceId, id, variants: [variant], after, ...more}),
		);
	t.like(await add(1, {sample: '{"a":1}'}), {version: 2, sample: '{"a":1}'});
	t.is(await add(1), 'newer');
	t.is(await add(null), 'newer');
	t.like(await add(2), {version: 3, sample: '{"a":1}'}, 'left out, it stays');
	t.like(await add(3, {sample: null}), {version: 4, sample: null});
});

storeTest(test, 'numbers concurrent saves of several nodes without refusing any', async (t, store) => {
	const {tools, workspaceId, save} = await prepare(store);
	const {id} = await save('receipt', [variant]);
	// Separate transactions, as in separate processes.
	const added = await Promise.all(
		Array.from({length: 6}, () =>
			store.database.transaction(trx => addVersion(trx, tools, {workspaceId, id, variants: [variant]})),
		),
	);
	t.deepEqual(added.map(one => (typeof one === 'object' ? one.version : one)).toSorted(), [2, 3, 4, 5, 6, 7]);
	const pushed = await Promise.all(
		['a', 'b', 'c'].map(subject =>
			store.database.transaction(trx =>
				saveTemplate(trx, tools, {workspaceId, name: 'new', variants: [{...variant, subject}], sample: null}),
			),
		),
	);
	t.deepEqual(pushed.map(({version}) => version).toSorted(), [1, 2, 3]);
});

sqliteTest(test, 'a sample is part of a version, and adding a version keeps it', async (t, store) => {
	const {tools, write, workspaceId, save} = await prepare(store);
	const {id} = await save('receipt', [variant], '{"a": 1}');
	t.like(await save('receipt', [variant], '{"a": 1}'), {version: 1, changed: false});
	t.like(await save('receipt', [variant], '{"a":1}'), {version: 2, changed: true});
	t.like(await save('receipt', [variant]), {version: 3, changed: true});
	t.like(await save('receipt', [variant], '{}'), {version: 4});
	t.like(await write(trx => addVersion(trx, tools, {workspaceId, id, variants: [variant]})), {
		version: 5,
		sample: '{}',
	});
	const gone = {workspaceId, id: tools.newId('tpl'), variants: [variant]};
	t.is(await write(trx => addVersion(trx, tools, gone)), undefined);
	t.is(await write(trx => addVersion(trx, tools, {...gone, id, workspaceId: tools.newId('ws')})), undefined);
});

sqliteTest(test, 'a rollback saves an old version again as it was compiled', async (t, store) => {
	const {tools, write, save, contextIn} = await prepare(store);
	const old = [variant, {...variant, locale: 'de', html: 'compiled in its day'}];
	const {id} = await save('receipt', old, '{"a":1}');
	await save('receipt', [variant]);
	const back = (version: number, other?: {workspaceId: string}) =>
		write(trx => performIn(rollBackTemplate, {...contextIn(trx), ...other}, {id, version}));
	t.deepEqual(await back(1), {id, name: 'receipt', version: 3, restored: 1});
	const saved = await findVersion(store.reader, id, 3);
	t.like(saved, {sample: '{"a":1}', fingerprint: toFingerprint(old)});
	t.deepEqual(await listVariants(store.reader, saved?.id as string), old);
	await t.throwsAsync(back(3), {instanceOf: Refused, code: 'conflict'});
	await t.throwsAsync(back(4), {instanceOf: Refused, code: 'not_found'});
	t.like(await save('receipt', old, '{"a":1}'), {version: 3, changed: false});
	const other = back(1, {workspaceId: tools.newId('ws')});
	await t.throwsAsync(other, {instanceOf: Refused, code: 'not_found'}, 'of another workspace');
});

sqliteTest(
	test,
	'a deleted template is no longer found, keeps its versions and frees its name and ID',
	async (t, store) => {
		const {write, workspaceId, save, contextIn} = await prepare(store);
		const create = async (input: InputOf<typeof createTemplate.input>) =>
			(await write(trx => performIn(createTemplate, contextIn(trx), input))).template;
		const made = await create({name: 'receipt'});
		t.like(made, {latest_version: null, id: made.row_id});
		await t.throwsAsync(create({name: 'receipt'}), {instanceOf: Refused, message: /this name already/});
		await t.throwsAsync(create({name: 'other', id: made.id}), {instanceOf: Refused, message: /this id already/});
		await save('receipt', [variant]);
		const remove = () => write(trx => performIn(removeTemplate, contextIn(trx), {id: made.id}));
		t.like(await remove(), {id: made.id});
		await t.throwsAsync(remove(), {instanceOf: Refused, code: 'not_found'});
		t.is(await findTemplate(store.reader, workspaceId, {name: 'receipt'}), undefined);
		t.is((await listVersions(store.reader, made.row_id)).length, 1);
		t.like(await create({name: 'receipt', id: made.id}), {id: made.id});
		t.deepEqual(
			(await listTemplates(store.reader, workspaceId)).map(({id}) => id),
			[made.id],
		);
	},
);

sqliteTest(test, 'two workspaces can use the same template ID without sharing versions', async (t, store) => {
	const {tools, write, workspaceId, contextIn} = await prepare(store);
	const other = (await write(trx => createWorkspace(trx, tools, {name: 'staging'})))?.id as string;
	const named = {id: 'tpl_receipt', name: 'receipt'};
	for (const owner of [workspaceId, other]) {
		const content = {variants: [{...variant, subject: owner}], sample: null};
		t.like(await write(trx => saveTemplate(trx, tools, {workspaceId: owner, ...named, ...content})), {
			...{id: named.id, version: 1, changed: true},
		});
		const found = await lookUpTemplate(store.reader, owner, named.id);
		t.like(await listVariants(store.reader, found?.version_id as string), [{subject: owner}]);
	}
	const conflict = (id: string | null, name: string) => findConflict(store.reader, other, {id, name});
	t.is(await conflict('tpl_receipt', 'receipt'), null);
	t.is(await conflict('tpl_new', 'new'), null);
	t.is(await conflict(null, 'receipt'), null);
	t.is(await conflict('tpl_receipt', 'bill'), 'the id tpl_receipt belongs to the template receipt');
	t.is(await conflict('tpl_new', 'receipt'), 'the template receipt has the id tpl_receipt, not tpl_new');
	const owned = {workspaceId: other};
	await write(trx => performIn(removeTemplate, {...contextIn(trx), ...owned}, {id: named.id}));
	t.is(await lookUpTemplate(store.reader, other, named.id), undefined);
	t.like(await lookUpTemplate(store.reader, workspaceId, named.id), {id: named.id});
});

test('limits the size of all languages of a version together, both source and compiled', t => {
	const variantOf = (length: number, compiled: number) => ({
		...({locale: null, subject: 's', kind: 'html', text_source: null, text: null} as const),
		...{own_source: null, own_text_source: null},
		...{source: 'a'.repeat(length), html: 'a'.repeat(compiled)},
	});
	const mebibyte = 1024 * 1024;
	t.false(isTooLargeVersion(new Array(8).fill(variantOf(mebibyte / 2, mebibyte / 2))));
	t.true(isTooLargeVersion(new Array(9).fill(variantOf(mebibyte / 2, mebibyte / 2))));
	t.true(isTooLargeVersion([variantOf(1, 8 * mebibyte)]));
});

test('the fingerprint covers everything the author wrote and no compiler output', t => {
	const mark = toFingerprint([variant]);
	t.is(toFingerprint([{...variant, html: 'other', text: null}]), mark);
	for (const change of [
		{locale: 'en'},
		{subject: 'x'},
		{kind: 'mjml'},
		{source: 'x'},
		{text_source: 'x'},
		{own_source: 'x'},
	] as const) {
		t.not(toFingerprint([{...variant, ...change}]), mark);
	}
});
