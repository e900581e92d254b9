import test from 'ava';
import {createDmarcReview} from '../../../src/resources/domains/dmarc.ts';
import type {SendingNames} from '../../../src/resources/domains/domain-records.ts';
import type {Domain} from '../../../src/resources/domains/store.ts';
import {storeTest} from '../../helpers/databases.ts';
import type {Zone} from '../../helpers/fake-dns.ts';
import {insertWorkspace} from '../../helpers/messages.ts';
import {resolverOf} from '../../helpers/resolvers.ts';

const names: SendingNames = {
	...{host: 'out.mail.example', bounceHost: 'out.mail.example', returnPathDomain: 'bounces.example.com'},
	...{sourceAddresses: ['192.0.2.1'], smarthosts: [], receives: false, publicHost: 'mail.shop.example'},
	policy: async () => null,
};

const now = Date.UTC(2026, 10, 27, 12);
const terms = Array.from({length: 99}, (_, n) => `ip4:192.0.${n}.9`).join(' ');
const textOf = (text: string) => ({txt: [text.match(/.{1,255}/g) ?? []]});
const zone: Zone = {
	'bounce.shop.example': textOf(
		`v=spf1 ${Array.from({length: 10}, (_, n) => `include:i${n}.example`).join(' ')} ip4:10.0.0.0/8 -all`,
	),
	...Object.fromEntries(Array.from({length: 10}, (_, n) => [`i${n}.example`, textOf(`v=spf1 ${terms} ?all`)])),
	'_dmarc.shop.example': textOf('v=DMARC1; p=none'),
};

storeTest(test, 'looks up each SPF term once a minute for many sources, with pauses', async (t, store) => {
	await insertWorkspace(store);
	const domain: Domain = await store.reader('domains').first();
	const rows = Array.from({length: 600}, (_, n) => ({
		...{domain_id: domain.id, day: '2026-11-26', dkim: 0, spf: 0, disposition: 'none', why: ''},
		...{n: 600 - n, signed: n % 2, ip: n === 0 ? 'others' : `${n % 3 ? '10.0' : '11.0'}.${n >> 8}.${n & 255}`},
	}));
	await store.writer.transaction(async trx => void (await trx.batchInsert('dmarc_days', rows, 50)));
	const resolver = await resolverOf(t, zone);
	const asked: string[] = [];
	const counting = {
		...resolver,
		txt: async (name: string) => {
			asked.push(name);
			return await resolver.txt(name, true);
		},
	};
	let [monotonic, looks] = [0, 0];
	const clock = {
		now: () => now,
		monotonic() {
			looks++;
			return monotonic;
		},
	};
	const openSources = () => ({resolvers: [counting], authority: async () => null, close: () => undefined});
	const review = createDmarcReview({reader: store.reader, names, openSources, clock});
	const [{sources, ips}] = await Promise.all([review(domain, 30), review(domain, 30)]);
	t.is(ips, 600);
	t.is(sources.length, 500);
	t.true(sources.every(({ip, ours}) => ours === ip.startsWith('10.')));
	t.true(looks > 500, 'it may pause at each of them');
	const ofSpf = () => asked.filter(name => /^(?:i\d|bounce)/.test(name)).length;
	t.is(ofSpf(), 11);
	t.is(asked.length, 13, 'what is published is asked for each time');
	monotonic += 59_000;
	await review(domain, 30);
	t.is(ofSpf(), 11);
	monotonic += 2000;
	await review(domain, 30);
	t.is(ofSpf(), 22);
});
