import {createPrivateKey, createPublicKey} from 'node:crypto';
import test from 'ava';
import {generateSigningKeys} from '../../../src/compose/dkim.ts';
import {domainRecords, sendingNames} from '../../../src/resources/domains/domain-records.ts';
import {addDomain} from '../../../src/resources/domains/rules.ts';
import {addSender, removeSender, updateSender, verifySender} from '../../../src/resources/domains/senders-rules.ts';
import type {SigningKeys} from '../../../src/resources/domains/signing-keys.ts';
import {
	findDomain,
	findSender,
	listDkimKeys,
	listDomains,
	listSenders,
	pageDomainSenders,
} from '../../../src/resources/domains/store.ts';
import {type OperationContext, performIn, Refused} from '../../../src/resources/operation.ts';
import {createWorkspace} from '../../../src/resources/workspaces/rules.ts';
import type {Store} from '../../../src/store/store.ts';
import {sqliteTest, storeTest} from '../../helpers/databases.ts';
import {testTools, testVault} from '../../helpers/tools.ts';

let keys: SigningKeys;
test.before(async () => {
	keys = await generateSigningKeys();
});

async function prepare(store: Store) {
	const tools = testTools();
	const write = store.writer.transaction;
	const workspace = await write(trx => createWorkspace(trx, tools, {name: 'acme'}));
	const workspaceId = workspace?.id as string;
	const context = {face: 'cli', workspaceId, mode: 'live', tools, vault: async () => testVault} as const;
	const inTrx = (trx: OperationContext['trx']): OperationContext => ({...context, trx});
	const add = (name: string) => write(trx => performIn(addDomain, inTrx(trx), {name, keys, ownHosts: []}));
	const newKeys = async () => keys;
	return {tools, write, workspaceId, inTrx, add, newKeys};
}

sqliteTest(test, 'creates two sealed keys for a domain, with the public keys in its records', async (t, store) => {
	const {workspaceId, add} = await prepare(store);
	const added = await add('shop.example');
	await t.throwsAsync(add('shop.example'), {instanceOf: Refused, message: /already has this domain/});
	const domain = await findDomain(store.reader, workspaceId, 'shop.example');
	t.deepEqual(domain, added.domain);
	const rows = await listDkimKeys(store.reader, domain?.id as string);
	t.deepEqual(
		rows.map(({selector, algorithm}) => [selector, algorithm]),
		[
			['mc1', 'rsa-sha256'],
			['mc2', 'ed25519-sha256'],
		],
	);
	for (const row of rows) {
		t.false(row.secret.includes('PRIVATE'));
		const pem = testVault.open(row.id, row.secret);
		t.true(createPublicKey(createPrivateKey(pem)).equals(createPublicKey(row.public_key)));
	}
	t.deepEqual(
		(await listDomains(store.reader, workspaceId)).map(({name}) => name),
		['shop.example'],
	);
});

sqliteTest(
	test,
	'lists the records of a domain: ownership, two DKIM keys, return path with SPF, DMARC',
	async (t, store) => {
		const {add} = await prepare(store);
		const added = await add('shop.example');
		const input = {
			domain: added.domain,
			keys: added.keys,
			host: 'out.mail.example',
			bounceHost: 'bounces.mail.example',
			returnPathDomain: 'bounces.mail.example',
			smarthosts: [],
			receives: false,
			publicHost: 'mail.example',
			policy: async () => null,
		};
		const records = domainRecords({...input, sourceAddresses: []} as Parameters<typeof domainRecords>[0]);
		t.deepEqual(
			records.map(({type, name, purpose, required, found}) => [type, name, purpose, required, found]),
			[
				['TXT', '_mailctl.shop.example', 'ownership', true, []],
				['TXT', 'mc1._domainkey.shop.example', 'dkim', true, []],
				['TXT', 'mc2._domainkey.shop.example', 'dkim', false, []],
				['MX', 'bounce.shop.example', 'return_path', false, []],
				['TXT', 'bounce.shop.example', 'spf', false, []],
				['TXT', '_dmarc.shop.example', 'dmarc', false, []],
			],
		);
		const values = records.map(({value}) => value);
		t.regex(values[0] as string, /^mailctl-verification=[0-9a-f]{40}$/);
		t.regex(values[1] as string, /^v=DKIM1; k=rsa; p=[A-Za-z0-9+/]{392}$/);
		t.regex(values[2] as string, /^v=DKIM1; k=ed25519; p=[A-Za-z0-9+/]{43}=$/);
		t.deepEqual(values.slice(3), ['10 bounces.mail.example', 'v=spf1 a:out.mail.example -all', 'v=DMARC1; p=none']);
		const sources = {...input, sourceAddresses: ['192.0.2.1', '2001:db8::1']} as Parameters<
			typeof domainRecords
		>[0];
		t.is(domainRecords(sources)[4]?.value, 'v=spf1 ip4:192.0.2.1 ip6:2001:db8::1 -all');
		t.is(
			domainRecords({...sources, receives: true})[5]?.value,
			'v=DMARC1; p=none; rua=mailto:dmarc@bounce.shop.example',
		);
		const nameless = {...input, host: 'vm', bounceHost: 'vm', sourceAddresses: []} as Parameters<
			typeof domainRecords
		>[0];
		t.deepEqual(
			domainRecords(nameless).map(({ready}) => ready),
			[true, true, true, false, false, true],
		);
		t.regex(domainRecords(nameless)[3]?.note ?? '', /set MAILCTL_HOSTNAME to a full name .* \(it is vm\)$/);
	},
);

test('bounces go to this machine if it listens for them, otherwise to the return-path domain', t => {
	const settings = {
		hostname: 'mail.shop.example',
		returnPathDomain: 'bounces.shop.example',
		inboundListen: {},
		bounceMailbox: null,
		sourceAddresses: [],
		delivery: 'mx',
		relays: [],
		publicUrl: 'https://mail.shop.example',
		httpListen: {host: '127.0.0.1', port: 1},
		inboundTlsCert: null,
		acme: false,
	} as const;
	const listening = sendingNames(settings);
	t.like(listening, {host: 'mail.shop.example', bounceHost: 'mail.shop.example', receives: true});
	const elsewhere = sendingNames({...settings, inboundListen: null});
	t.like(elsewhere, {host: 'mail.shop.example', bounceHost: 'bounces.shop.example', receives: false});
	t.true(sendingNames({...settings, inboundListen: null, bounceMailbox: {}}).receives);
});

sqliteTest(
	test,
	'adding a sender adds its domain; it is unique and verified by the operator or by its domain',
	async (t, store) => {
		const {write, workspaceId, inTrx, newKeys} = await prepare(store);
		const add = (address: string, verified = false) =>
			write(trx => performIn(addSender, inTrx(trx), {address, verified, newKeys}));
		t.like(await add('No-Reply@shop.example'), {address: 'No-Reply@shop.example', verified_at: null});
		await t.throwsAsync(add('no-reply@SHOP.example'), {instanceOf: Refused, message: /already exists/});
		t.like(await add('other@shop.example', true), {verified_at: '2026-06-09T10:00:00.000Z'});
		t.is((await listDomains(store.reader, workspaceId)).length, 1);

		await store.database('domains').update({verified_at: '2026-06-01T00:00:00.000Z', state: 'verified'});
		t.like(await add('third@shop.example'), {verified_at: '2026-06-01T00:00:00.000Z'});
		t.deepEqual(
			(await listSenders(store.reader, workspaceId)).map(sender => [sender.address, sender.verified_at]),
			[
				['third@shop.example', '2026-06-01T00:00:00.000Z'],
				['other@shop.example', '2026-06-09T10:00:00.000Z'],
				['No-Reply@shop.example', '2026-06-01T00:00:00.000Z'],
			],
		);
		await add('elsewhere@other.example');
		const [domain] = (await listDomains(store.reader, workspaceId)).filter(({name}) => name === 'shop.example');
		const page = async (after: string | null) =>
			(await pageDomainSenders(store.reader, domain?.id ?? '', {after, limit: 2})).map(({address}) => address);
		t.deepEqual(await page(null), ['No-Reply@shop.example', 'other@shop.example']);
		t.deepEqual(await page('other@shop.example'), ['third@shop.example']);

		await store.database('domains').update({verified_at: null, state: 'failed'});
		t.like(await findSender(store.reader, workspaceId, 'third@shop.example'), {verified_at: null});
	},
);

storeTest(test, 'concurrent additions of senders create a new domain once', async (t, store) => {
	const {workspaceId, inTrx, newKeys} = await prepare(store);
	const added = await Promise.allSettled(
		['a', 'b', 'c', 'a'].map(local => {
			const input = {address: `${local}@shop.example`, newKeys};
			return store.database.transaction(trx => performIn(addSender, inTrx(trx), input));
		}),
	);
	t.is(added.filter(({status}) => status === 'fulfilled').length, 3);
	t.is((await listDomains(store.reader, workspaceId)).length, 1);
});

sqliteTest(test, 'verifies, disables, enables and removes a sender', async (t, store) => {
	const {tools, write, workspaceId, inTrx, newKeys} = await prepare(store);
	const input = {address: 'a@shop.example', name: 'Shop', newKeys};
	const {id} = await write(trx => performIn(addSender, inTrx(trx), input));
	const verify = (sender: string, verified = true) =>
		write(trx => performIn(verifySender, inTrx(trx), {id: sender, verified}));
	const switchTo = (active: boolean) => write(trx => performIn(updateSender, inTrx(trx), {id, active}));
	await t.throwsAsync(verify('snd_other'), {instanceOf: Refused});
	const at = '2026-06-09T10:00:00.000Z';
	t.like(await verify(id), {verified_at: at, disabled_at: null});
	t.like(await switchTo(false), {verified_at: at, disabled_at: at});
	tools.advance(1000);
	t.like(await switchTo(false), {disabled_at: at}, 'since when is kept');
	t.like(await switchTo(true), {verified_at: at, disabled_at: null});
	t.like(await findSender(store.reader, workspaceId, 'a@shop.example'), {name: 'Shop', disabled_at: null});
	t.like(await verify(id, false), {verified_at: null});
	await write(trx => performIn(updateSender, inTrx(trx), {id}));
	const remove = () => write(trx => performIn(removeSender, inTrx(trx), {id}));
	t.like(await remove(), {address: 'a@shop.example'});
	await t.throwsAsync(remove(), {instanceOf: Refused});
	const acts = await store.reader('audit').where({target: id}).orderBy('id').pluck('action');
	t.deepEqual(
		acts.map(action => action.replace('sender.', '')),
		['added', 'verified', 'disabled', 'disabled', 'enabled', 'unverified', 'removed'],
		'without a change nothing is recorded',
	);
});
