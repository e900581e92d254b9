import test from 'ava';
import {generateSigningKeys} from '../../../src/compose/dkim.ts';
import {toReceived} from '../../../src/inbound/received.ts';
import {findOwnDomain} from '../../../src/resources/domains/reports-store.ts';
import {addDomain, removeDomain} from '../../../src/resources/domains/rules.ts';
import {performIn, Refused} from '../../../src/resources/operation.ts';
import {addInbound} from '../../../src/resources/received/rules.ts';
import {findInboxes, listInboundAddresses} from '../../../src/resources/received/store.ts';
import {createWorkspace} from '../../../src/resources/workspaces/rules.ts';
import type {Store} from '../../../src/store/store.ts';
import {storeTest} from '../../helpers/databases.ts';
import {testTools, testVault} from '../../helpers/tools.ts';

async function prepare(store: Store) {
	const tools = testTools();
	const write = store.writer.transaction;
	const [former, owner] = (await write(async trx => [
		(await createWorkspace(trx, tools, {name: 'former'}))?.id,
		(await createWorkspace(trx, tools, {name: 'owner'}))?.id,
	])) as [string, string];
	const context = {face: 'cli', mode: 'live', tools, vault: async () => testVault} as const;
	const add = (workspaceId: string, address: string) =>
		write(trx => performIn(addInbound, {...context, workspaceId, trx}, {address}));
	const addShop = async (workspaceId: string, name: string) => {
		const keys = await generateSigningKeys();
		return await write(trx => performIn(addDomain, {...context, workspaceId, trx}, {name, keys, ownHosts: []}));
	};
	const removeShop = (id: string) =>
		write(trx => performIn(removeDomain, {...context, workspaceId: owner, trx}, {id}));
	return {write, former, owner, add, addShop, removeShop};
}

storeTest(
	test,
	'gives mail of a domain to the workspace that verifies it, even if others added addresses',
	async (t, store) => {
		const {write, former, owner, add, addShop, removeShop} = await prepare(store);
		await add(former, 'ceo@in.shop.example');
		await add(former, '*@in.shop.example');
		const kept = await add(former, 'x@elsewhere.example');
		const {domain} = await addShop(owner, 'shop.example');
		const early = await t.throwsAsync(add(owner, '*@in.shop.example'), {instanceOf: Refused});
		t.regex(early?.message ?? '', /already receives mail/, 'nothing is proved yet');

		await write(trx => trx('domains').where({id: domain.id}).update({state: 'verified'}));
		await add(owner, '*@in.shop.example');
		const asked = ['ceo@in.shop.example', 'any@in.shop.example'];
		t.deepEqual([...(await findInboxes(store.reader, asked)).values()], [owner, owner]);
		t.deepEqual(await listInboundAddresses(store.reader, former), [kept]);
		t.is((await store.reader('audit').where({workspace_id: former, action: 'inbound.removed'})).length, 2);
		await t.throwsAsync(add(former, 'ceo@in.shop.example'), {instanceOf: Refused, message: /another workspace/});

		await add(owner, 'a@shop.example');
		await add(owner, 'a@workshop.example');
		await removeShop(domain.id);
		const left = await listInboundAddresses(store.reader, owner);
		t.deepEqual(
			left.map(({address}) => address),
			['a@workshop.example'],
		);
	},
);

storeTest(test, 'signs system messages with the domain of the host name, not with a tenant’s', async (t, store) => {
	const {write, former, owner, addShop} = await prepare(store);
	const domain = async (workspaceId: string, name: string) => {
		await addShop(workspaceId, name);
		await write(trx => trx('domains').where({name}).update({state: 'verified'}));
	};
	const signer = async (host: string) => (await findOwnDomain(store.reader, host))?.name;
	t.is(await signer('mail.shop.example'), undefined);
	await domain(owner, 'other.example');
	t.is(await signer('mail.shop.example'), 'other.example', 'there is one workspace with domains');
	await domain(former, 'tenant.example');
	t.is(await signer('mail.shop.example'), undefined);
	await domain(former, 'shop.example');
	t.deepEqual(
		[await signer('mail.shop.example'), await signer('shop.example'), await signer('workshop.example')],
		['shop.example', 'shop.example', undefined],
	);
});

storeTest(test, "the operator's addresses are no workspace's, whatever takes all of a domain", async (t, store) => {
	const {owner, add} = await prepare(store);
	await add(owner, '*@in.shop.example');
	const rcptTo = ['postmaster', 'abuse', 'fbl', 'dmarc', 'TLSRPT'].map(local => `${local}@in.shop.example`);
	const options = {reader: store.reader, links: {readReplyLocal: () => null}};
	const received = toReceived(options as never, {rcptTo} as never, {message: null} as never, Buffer.alloc(0));
	t.deepEqual(await received, []);
});
