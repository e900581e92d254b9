import test from 'ava';
import {generateSigningKeys} from '../../../src/compose/dkim.ts';
import {linkHostProblem} from '../../../src/resources/domains/link-host.ts';
import {addDomain, updateDomain} from '../../../src/resources/domains/rules.ts';
import type {SigningKeys} from '../../../src/resources/domains/signing-keys.ts';
import {type Domain, findDomainById, findDomainSigning, findLinkHost} from '../../../src/resources/domains/store.ts';
import {performIn, Refused} from '../../../src/resources/operation.ts';
import {createWorkspace} from '../../../src/resources/workspaces/rules.ts';
import {readGeneration} from '../../../src/store/changes.ts';
import type {Store} from '../../../src/store/store.ts';
import {sqliteTest, storeTest} from '../../helpers/databases.ts';
import {testTools, testVault} from '../../helpers/tools.ts';

const ownHosts = ['mail.example', 'links.own.example'];
let keys: SigningKeys;
test.before(async () => {
	keys = await generateSigningKeys();
});

async function prepare(store: Store) {
	const tools = testTools();
	const write = store.writer.transaction;
	const context = {face: 'cli', mode: 'live', tools, vault: async () => testVault} as const;
	const add = async (workspace: string, name: string, host: string | null = null): Promise<Domain> => {
		const made = await write(trx => createWorkspace(trx, tools, {name: workspace}));
		const at = {...context, workspaceId: made?.id as string};
		const input = {name, ...(host !== null && {link_host: host}), keys, ownHosts};
		return (await write(trx => performIn(addDomain, {...at, trx}, input))).domain;
	};
	const read = async ({workspace_id, id}: Domain) => (await findDomainById(store.reader, workspace_id, id)) as Domain;
	const change = async ({id, workspace_id: workspaceId}: Domain, host: string | null) => {
		const input = {id, link_host: host, ownHosts};
		return (await write(trx => performIn(updateDomain, {...context, workspaceId, trx}, input))).domain;
	};
	const mark = async ({id}: Domain, changes: Partial<Domain>) =>
		await write(trx => trx('domains').where({id}).update(changes));
	return {tools, write, add, read, change, mark};
}

test('a link host must be below the domain and not be its return path', t => {
	const domain = {name: 'shop.example', return_path_domain: null};
	for (const host of [null, 'links.shop.example', 'a.b.shop.example', 'bounce2.shop.example']) {
		t.is(linkHostProblem(domain, host), null, String(host));
	}
	for (const host of ['shop.example', 'links.other.example', 'linksshop.example', 'bounce.shop.example']) {
		t.not(linkHostProblem(domain, host), null, host);
	}
	t.not(linkHostProblem({...domain, return_path_domain: 'r.shop.example'}, 'r.shop.example'), null);
});

sqliteTest(test, 'a link host belongs to one domain and cannot be a name of the installation', async (t, store) => {
	const {add, read, change} = await prepare(store);
	const first = await add('one', 'shop.example', 'links.shop.example');
	t.is((await read(first)).link_host, 'links.shop.example');
	const other = await add('two', 'shop.example');
	const refused = async (host: string, code: string, wrong: RegExp) => {
		const error = await t.throwsAsync(change(other, host), {instanceOf: Refused});
		t.is(error.code, code as typeof error.code);
		t.regex(error.wrong, wrong);
	};
	await refused('links.shop.example', 'conflict', /belongs to another domain/);
	await refused('links.other.example', 'unprocessable_entity', /must be a host below shop\.example/);
	const own = await add('three', 'own.example');
	await t.throwsAsync(change(own, 'links.own.example'), {message: /must not be the name of this installation/});
	await t.throwsAsync(add('four', 'shop.example', 'links.shop.example'), {instanceOf: Refused});
	t.is((await read(other)).link_host, null);
	t.like(await change(first, 'links.shop.example'), {link_host: 'links.shop.example'}, 'its own stays its own');
});

sqliteTest(test, 'a verified domain takes its link host from an unverified one', async (t, store) => {
	const {add, read, change, mark} = await prepare(store);
	const squatter = await add('one', 'shop.example', 'links.shop.example');
	const owner = await add('two', 'shop.example');
	await mark(owner, {verified_at: '2026-06-09T10:00:00.000Z'});
	t.is((await change(owner, 'links.shop.example')).link_host, 'links.shop.example');
	t.is((await read(squatter)).link_host, null);
	await mark(squatter, {verified_at: '2026-06-09T10:00:00.000Z'});
	await t.throwsAsync(change(squatter, 'links.shop.example'), {instanceOf: Refused});
});

storeTest(test, 'a change is checked at once, recorded in the audit log and refreshes caches', async (t, store) => {
	const {add, read, change, mark} = await prepare(store);
	const domain = await add('one', 'shop.example', 'links.shop.example');
	const at = '2026-06-09T10:00:00.000Z';
	await mark(domain, {verified_at: at, checked_at: at, links_ok_at: at});
	const before = await readGeneration(store.reader);
	t.like(await change(domain, 'l.shop.example'), {link_host: 'l.shop.example', links_ok_at: null, checked_at: null});
	t.like(await read(domain), {link_host: 'l.shop.example', links_ok_at: null, checked_at: null});
	t.true((await readGeneration(store.reader)) > before);
	await change(domain, null);
	t.is((await read(domain)).link_host, null);
	const rows: Array<{action: string; detail: string}> = await store
		.reader('audit')
		.where({target: domain.id})
		.orderBy('id');
	t.deepEqual(
		rows.map(({action, detail}) => [action, JSON.parse(detail).link_host]),
		[
			['domain.added', undefined],
			['domain.updated', 'l.shop.example'],
			['domain.updated', null],
		],
	);
});

sqliteTest(
	test,
	'uses a link host once DNS points here and, if this machine serves https, it has a certificate',
	async (t, store) => {
		const {add, mark, write} = await prepare(store);
		const domain = await add('one', 'shop.example', 'links.shop.example');
		const now = '2026-06-09T10:00:00.000Z';
		const used = async (https: boolean) => [
			(await findDomainSigning(store.reader, domain.id, now, https)).linkHost,
			await findLinkHost(store.reader, domain.workspace_id, now, https),
		];
		const host = 'links.shop.example';
		t.deepEqual(await used(false), [null, null], 'DNS does not show it');
		await mark(domain, {links_ok_at: now});
		t.deepEqual(await used(false), [null, null], 'the domain has not proved itself');
		await mark(domain, {verified_at: now});
		t.deepEqual(await used(false), [host, host], 'a proxy serves https');
		t.deepEqual(await used(true), [null, null], 'no certificate');
		const row = {name: host, next_try_at: now, tries: 0, updated_at: now};
		await write(trx => trx('certificates').insert(row));
		t.deepEqual(await used(true), [null, null], 'none was issued yet');
		const certificate = (not_after: string) =>
			write(trx => trx('certificates').where({name: host}).update({not_after}));
		await certificate('2026-06-09T09:59:59.000Z');
		t.deepEqual(await used(true), [null, null], 'it has expired');
		await certificate('2026-09-01T00:00:00.000Z');
		t.deepEqual(await used(true), [host, host]);
	},
);
