import {writeFileSync} from 'node:fs';
import path from 'node:path';
import test from 'ava';
import type {Settings} from '../../src/config/settings.ts';
import {blocklistCheck, sendingAddresses} from '../../src/doctor/blocklists.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {createResolver} from '../../src/net/resolver.ts';
import {temporaryFolder} from '../helpers/databases.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';

test('takes the public sending addresses from the settings or the machine, and none with a relay', t => {
	const of = (delivery: Settings['delivery'], ...ips: string[]) =>
		sendingAddresses({delivery, sourceAddresses: ips.map(ip => ({ip, ehlo: null}))}, ['93.184.215.14']);
	t.deepEqual(of('mx'), ['93.184.215.14']);
	t.deepEqual(of('mx', '93.184.215.15', '127.0.0.1', '10.1.2.3', '2606:2800:21f::1'), [
		...['93.184.215.15', '2606:2800:21f::1'],
	]);
	t.deepEqual(of('relay', '93.184.215.15'), []);
	t.deepEqual(of('capture', '93.184.215.15'), []);
});

test('reports addresses as listed, not listed or unknown', async t => {
	const refused = '127.255.255.254';
	const dns = await startFakeDns(t, {
		'2.0.0.127.zen.spamhaus.org': {a: [refused]},
		'2.0.0.127.b.barracudacentral.org': 'timeout',
		'2.0.0.127.bl.spamcop.net': {a: ['127.0.0.2']},
		'2.0.0.127.psbl.surriel.com': {a: ['127.0.0.2']},
		'15.215.184.93.bl.spamcop.net': {a: ['127.0.0.2'], txt: ['Blocked']},
	});
	const blocklistsFile = path.join(await temporaryFolder(t), 'lists.json');
	writeFileSync(blocklistsFile, '{"b.barracudacentral.org": null}');
	const resolver = createResolver({servers: [dns.server], timeoutMs: 60_000, tries: 1, clock: systemClock});
	const look = async (addresses: readonly string[], file = blocklistsFile) => {
		const settings = {delivery: 'mx', sourceAddresses: [], blocklistsFile: file} as unknown as Settings;
		const check = blocklistCheck({settings, interfaceAddresses: addresses, store: {store: null}, resolver});
		return (await check.run()).map(({status, detail, fix}) => `${status}: ${detail}${fix && ` | ${fix}`}`);
	};
	const doubt = 'no result from zen.spamhaus.org: the list refuses this resolver';
	t.deepEqual(await look(['93.184.215.14', '93.184.215.15']), [
		`ok: 93.184.215.14 is on 0 of 2 blocklists that responded; ${doubt}`,
		'warn: 93.184.215.15 is on bl.spamcop.net (127.0.0.2): Blocked | resolve the cause, then request removal: https://www.spamcop.net/bl.shtml?93.184.215.15',
		`ok: 93.184.215.15 is on 1 of 2 blocklists that responded; ${doubt}`,
	]);
	t.deepEqual(await look(['2606:2800:21f::1']), [
		`warn: no blocklist responded for 2606:2800:21f::1; ${doubt} | set MAILCTL_DNS_SERVERS to your own resolver`,
	]);
	t.deepEqual(await look([]), ['ok: nothing to check: no public address and no verified domain']);
	writeFileSync(blocklistsFile, '{"zen.spamhaus.org": {"kind": "zen"}}');
	t.regex(
		(await look(['93.184.215.14']))[0] ?? '',
		/^fail: MAILCTL_BLOCKLISTS_FILE=".*zen\.spamhaus\.org\.kind: use ip/,
	);
});
