import test, {type ExecutionContext} from 'ava';
import {Authority} from '../../src/dns/resolver.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {startFakeDns, type Zone} from '../helpers/fake-dns.ts';

/** A resolver whose zone delegates to the server of another one. */
async function prepare(
	t: ExecutionContext,
	{own, above, allowPrivate}: {own: Zone; above: (ip: string) => Zone; allowPrivate: boolean},
) {
	const server = await startFakeDns(t, own);
	const [ip = '', port] = server.server.split(':');
	const parent = await startFakeDns(t, above(ip));
	const options = {servers: [parent.server], timeoutMs: 60_000, port: Number(port), allowPrivate, clock: systemClock};
	const authority = new Authority(options);
	return {authority: (domain: string) => authority.find(domain), own: server};
}

const own: Zone = {'shop.example': {}, '_mailctl.shop.example': {txt: ['here']}, 'mail.shop.example': {}};
const above = (ip: string): Zone => ({'shop.example': {ns: ['ns.shop.example']}, 'ns.shop.example': {a: [ip]}});

test('the servers of the zone know what a resolver does not know yet', async t => {
	const {authority} = await prepare(t, {own, above, allowPrivate: true});
	const resolver = await authority('shop.example');
	t.deepEqual(await resolver?.txt('_mailctl.shop.example'), {kind: 'found', records: ['here']});
});

test('a domain without a zone of its own is in that of its parent', async t => {
	const {authority} = await prepare(t, {own, above, allowPrivate: true});
	t.truthy(await authority('mail.shop.example'));
	t.is(await authority('other.example'), null);
});

test('a foreign zone cannot point into the own network', async t => {
	const {authority, own: server} = await prepare(t, {own, above, allowPrivate: false});
	t.is(await authority('shop.example'), null);
	t.deepEqual(server.queries, []);
});

test('servers that do not answer are none', async t => {
	const {authority} = await prepare(t, {own: {'shop.example': 'refused'}, above, allowPrivate: true});
	t.is(await authority('shop.example'), null);
});
