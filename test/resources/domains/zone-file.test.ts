import test from 'ava';
import fc from 'fast-check';
import {dkimRecordValue, generateSigningKeys} from '../../../src/compose/dkim.ts';
import {type DomainRecord, domainRecords, zoneFile} from '../../../src/resources/domains/domain-records.ts';
import {parseZone} from '../../helpers/zone-file.ts';

const now = '2026-06-09T10:00:00.000Z';
const base: DomainRecord = {
	...{
		type: 'TXT',
		name: 'a.shop.example',
		value: '',
		purpose: 'ownership',
		required: true,
		found: [],
		key: null,
		alike: [],
		note: null,
		ready: true,
	},
};

async function records(): Promise<DomainRecord[]> {
	const {rsa} = await generateSigningKeys();
	const key = {
		id: 'dkm_1',
		domain_id: 'dom_1',
		algorithm: 'rsa-sha256',
		secret: '',
		created_at: now,
		seen_at: null,
	} as const;
	return domainRecords({
		domain: {
			...{id: 'dom_1', workspace_id: 'ws_1', name: 'shop.example', ownership_token: 'abc', created_at: now},
			...{return_path_domain: null, return_path_at: null, state: 'pending', state_at: now},
			...{link_host: null, links_ok_at: null},
			...{verified_at: null, first_verified_at: null, checked_at: null, failures: 0},
		},
		keys: [
			{
				...key,
				selector: 'mc1',
				public_key: rsa,
				active_from: now,
				pending_at: null,
				retired_at: '2026-05-01T00:00:00.000Z',
			},
			{
				...key,
				selector: 'mc3',
				public_key: rsa,
				active_from: now,
				pending_at: null,
				retired_at: '2026-06-01T00:00:00.000Z',
			},
			{...key, selector: 'mc5', public_key: rsa, active_from: now, pending_at: null, retired_at: null},
		],
		...{host: 'out.mail.example', bounceHost: 'bounces.mail.example', returnPathDomain: 'bounces.mail.example'},
		...{
			sourceAddresses: ['192.0.2.1'],
			smarthosts: [],
			receives: false,
			publicHost: 'mail.example',
			policy: async () => null,
			policyId: 'abc1',
		},
	});
}

test('contains every required record, with absolute names and short strings', async t => {
	const all = await records();
	const text = zoneFile('shop.example', all, now).join('\n');
	t.deepEqual(
		parseZone(text).map(({name, type, data}) => [name, type, type === 'TXT' ? data.join('') : data.join(' ')]),
		all
			.filter(({name}) => !name.startsWith('_dmarc') && !name.startsWith('mc1'))
			.map(({name, type, value}) => [name, type, type === 'TXT' ? value : `${value}.`]),
	);
	t.true(parseZone(text).every(({ttl}) => ttl === 3600));
	const [, long] = parseZone(text);
	t.deepEqual(
		long?.data.map(part => part.length),
		[255, dkimRecordValue(dkimOf(all)).length - 255],
	);
	t.regex(
		text,
		/^; only if there is no DMARC record yet:\n; _dmarc\.shop\.example\. 3600 IN TXT "v=DMARC1; p=none"$/m,
	);
	t.regex(text, /^; no longer needed: mc1\._domainkey/m);
});

function dkimOf(all: readonly DomainRecord[]): string {
	const value = all.find(({name}) => name.startsWith('mc3'))?.value.split('p=')[1] as string;
	return `-----BEGIN PUBLIC KEY-----\n${value}\n-----END PUBLIC KEY-----\n`;
}

test('preserves any value', t => {
	fc.assert(
		fc.property(fc.stringMatching(/^[ -~]{0,600}$/), value => {
			const [record] = parseZone(zoneFile('shop.example', [{...base, value}], now).join('\n'));
			t.is(record?.data.join(''), value);
		}),
	);
});

test('writes a record with a placeholder, or without a full hostname, as a comment with instructions', t => {
	const placeholder = {...base, value: 'v=spf1 include:ask-your-provider.invalid ~all', note: 'ask p.example'};
	const nameless = {...base, type: 'MX' as const, value: '10 vm', note: 'set MAILCTL_HOSTNAME', ready: false};
	const lines = zoneFile('shop.example', [placeholder, nameless], now);
	t.deepEqual(parseZone(lines.join('\n')), []);
	t.true(lines.includes('; ask p.example:') && lines.includes('; MX a.shop.example: set MAILCTL_HOSTNAME'));
});
