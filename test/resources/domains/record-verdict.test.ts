import test from 'ava';
import {dkimRecordValue, generateSigningKeys} from '../../../src/compose/dkim.ts';
import {judgeRecord} from '../../../src/resources/domains/check-records.ts';
import type {DomainRecord} from '../../../src/resources/domains/domain-records.ts';
import type {DnsFault, DnsRecords, Zone} from '../../helpers/fake-dns.ts';
import {resolverOf} from '../../helpers/resolvers.ts';

const [own, foreign] = await Promise.all([generateSigningKeys(), generateSigningKeys()]);
const p = dkimRecordValue(own.rsa).split('p=')[1] as string;

type Purpose = DomainRecord['purpose'];
const wanted: Readonly<Record<Purpose, readonly [name: string, type: DomainRecord['type'], value: string]>> = {
	ownership: ['_mailctl.shop.example', 'TXT', 'mailctl-verification=abc'],
	dkim: ['mc1._domainkey.shop.example', 'TXT', dkimRecordValue(own.rsa)],
	return_path: ['bounce.shop.example', 'MX', '10 bounces.mail.example'],
	spf: ['bounce.shop.example', 'TXT', 'v=spf1 ip4:192.0.2.1 ip6:2001:db8::1 -all'],
	dmarc: ['_dmarc.shop.example', 'TXT', 'v=DMARC1; p=none; rua=mailto:dmarc@bounce.shop.example'],
	links: ['links.shop.example', 'CNAME', 'mail.example'],
	mta_sts: ['_mta-sts.bounce.shop.example', 'TXT', 'v=STSv1; id=20261127abc'],
	tls_report: ['_smtp._tls.bounce.shop.example', 'TXT', 'v=TLSRPTv1; rua=mailto:tlsrpt@bounce.shop.example'],
};

type Case = readonly [
	about: string,
	answer: DnsRecords | DnsFault | null,
	state: string,
	problem?: RegExp | null,
	more?: Zone,
];

const leadsHere: Zone = {'mail.example': {a: ['192.0.2.7'], aaaa: ['2001:db8::7']}};

const cases: Readonly<Record<Purpose, readonly Case[]>> = {
	ownership: [
		['the text', {txt: ['mailctl-verification=abc']}, 'ok'],
		['among others', {txt: ['x', 'mailctl-verification=abc', 'mailctl-verification=old']}, 'ok'],
		['in parts', {txt: [['mailctl-', 'verification=abc']]}, 'ok'],
		['spaces around it', {txt: [' mailctl-verification=abc ']}, 'ok'],
		['another text', {txt: ['mailctl-verification=abd']}, 'different', /its text is different/],
		['no name', null, 'missing'],
		['no text', {}, 'missing'],
		['SERVFAIL', 'servfail', 'unknown', /DNS did not answer \(ESERVFAIL\)/],
		['refused', 'refused', 'unknown', /DNS did not answer \(EREFUSED\)/],
	],
	dkim: [
		['the same', {txt: [[dkimRecordValue(own.rsa).slice(0, 255), dkimRecordValue(own.rsa).slice(255)]]}, 'ok'],
		['another order, no v=', {txt: [[`t=s;p=${p.slice(0, 200)}`, ` ${p.slice(200)} ; k=rsa;`]]}, 'ok'],
		['beside another text', {txt: ['hello', [`p=${p.slice(0, 200)}`, p.slice(200)]]}, 'ok'],
		['tried out', {txt: [['v=DKIM1; t=y; p=', p.slice(0, 200), p.slice(200)]]}, 'ok', /t=y/],
		[
			'by an alias',
			{cname: 'keys.example'},
			'ok',
			null,
			{'keys.example': {txt: [['p=', p.slice(0, 250), p.slice(250)]]}},
		],
		['another key', {txt: [dkimRecordValue(foreign.rsa).match(/.{1,255}/g) ?? []]}, 'different', /a different key/],
		['another algorithm', {txt: [dkimRecordValue(own.ed25519)]}, 'different', /a different key/],
		['revoked', {txt: ['v=DKIM1; p=']}, 'different', /revoked/],
		[
			'two keys',
			{txt: [[`p=${p.slice(0, 200)}`, p.slice(200)], dkimRecordValue(own.ed25519)]},
			'different',
			/2 keys/,
		],
		['SHA-1 only', {txt: [['h=sha1;p=', p.slice(0, 200), p.slice(200)]]}, 'different', /h= excludes/],
		['no key', {txt: ['hello']}, 'different', /not a DKIM key/],
		['nothing', null, 'missing'],
		['no answer', 'servfail', 'unknown', /ESERVFAIL/],
	],
	return_path: [
		['the MX', {mx: [[10, 'bounces.mail.example']]}, 'ok'],
		['in capitals, another preference', {mx: [[5, 'Bounces.Mail.Example']]}, 'ok'],
		[
			'a spare behind it',
			{
				mx: [
					[10, 'bounces.mail.example'],
					[20, 'mx.other.example'],
				],
			},
			'ok',
		],
		[
			'behind another',
			{
				mx: [
					[20, 'bounces.mail.example'],
					[10, 'mx.other.example'],
				],
			},
			'different',
			/would not reach bounces\.mail\.example/,
		],
		['null MX', {mx: [[0, '.']]}, 'different', /would not reach/],
		['an alias', {cname: 'bounces.mail.example'}, 'ok', null, {'bounces.mail.example': {a: ['192.0.2.1']}}],
		[
			'an alias of a host with MX',
			{cname: 'bounces.mail.example'},
			'ok',
			null,
			{'bounces.mail.example': {mx: [[10, 'in.mail.example']]}},
		],
		[
			'the MX of the host',
			{mx: [[10, 'in.mail.example']]},
			'ok',
			null,
			{'bounces.mail.example': {mx: [[1, 'in.mail.example']]}},
		],
		[
			'another machine, to which the return-path domain leads too',
			{mx: [[10, 'two.mail.example']]},
			'ok',
			null,
			{
				'returns.mail.example': {
					mx: [
						[10, 'one.mail.example'],
						[20, 'two.mail.example'],
					],
				},
			},
		],
		['the return-path domain', {mx: [[10, 'returns.mail.example']]}, 'ok'],
		['an alias of it', {cname: 'returns.mail.example'}, 'ok', null, {'returns.mail.example': {a: ['192.0.2.1']}}],
		[
			'another alias',
			{cname: 'mx.other.example'},
			'different',
			/would not reach/,
			{'mx.other.example': {a: ['192.0.2.1']}},
		],
		['an address only', {a: ['192.0.2.1']}, 'missing'],
		['nothing', null, 'missing'],
		['no answer', 'servfail', 'unknown', /ESERVFAIL/],
	],
	spf: [
		['the same', {txt: ['v=spf1 ip4:192.0.2.1 ip6:2001:db8::1 -all']}, 'ok'],
		['wider', {txt: ['v=spf1 ip6:2001:db8::/64 ip4:192.0.2.0/24 ~all']}, 'ok'],
		[
			'by include',
			{txt: ['v=spf1 include:s.example -all']},
			'ok',
			null,
			{'s.example': {txt: ['v=spf1 ip4:192.0.2.1 ip6:2001:db8::1']}},
		],
		['one address is left out', {txt: ['v=spf1 ip4:192.0.2.1 -all']}, 'different', /does not allow 2001:db8::1/],
		['two records', {txt: ['v=spf1 +all', 'v=spf1 -all']}, 'different', /2 SPF records/],
		['a fault', {txt: ['v=spf1 ip5:1 -all']}, 'different', /"ip5:1" is not a valid term/],
		['another text', {txt: ['hello']}, 'missing'],
		[
			'an include that does not answer',
			{txt: ['v=spf1 include:s.example -all']},
			'unknown',
			/s\.example/,
			{'s.example': 'servfail'},
		],
	],
	dmarc: [
		['the policy', {txt: ['v=DMARC1; p=none; rua=mailto:dmarc@bounce.shop.example']}, 'ok'],
		[
			'beside others',
			{txt: ['v=DMARC1;p=reject;rua=mailto:a@b.example, MAILTO:dmarc@bounce.shop.example!1m']},
			'ok',
		],
		[
			'to a longer name',
			{txt: ['v=DMARC1;p=none;rua=mailto:dmarc@bounce.shop.example.evil']},
			'ok',
			/rua= does not include mailto:d/,
		],
		[
			'reports to others',
			{txt: ['v=DMARC1;p=reject;rua=mailto:a@b.example']},
			'ok',
			/rua= does not include mailto:dmarc@bounce/,
		],
		['no reports', {txt: ['v=DMARC1; p=none']}, 'ok', /are not sent here/],
		['of the parent', null, 'ok', /it is inherited from _dmarc\.example\.org/],
		['two', {txt: ['v=DMARC1; p=none', 'v=DMARC1; p=reject']}, 'different', /2 DMARC records/],
		['a misspelt policy', {txt: ['v=DMARC1; p=non']}, 'different', /p= must be none/],
		['no list of tags', {txt: ['v=DMARC1 p=none']}, 'different', /not a list/],
		['another text', {txt: ['hello']}, 'missing'],
		['no answer', 'servfail', 'unknown', /ESERVFAIL/],
	],
	links: [
		['an alias', {cname: 'mail.example'}, 'ok', null, leadsHere],
		['an alias in capitals', {cname: 'Mail.Example'}, 'ok', null, leadsHere],
		['an alias, whatever its host has', {cname: 'mail.example'}, 'ok'],
		['the same addresses', {a: ['192.0.2.7'], aaaa: ['2001:db8::7']}, 'ok', null, leadsHere],
		['one of them', {a: ['192.0.2.7']}, 'ok', null, leadsHere],
		[
			'an alias of an alias',
			{cname: 'edge.example'},
			'ok',
			null,
			{...leadsHere, 'edge.example': {cname: 'mail.example'}},
		],
		[
			'one of them and another',
			{a: ['192.0.2.7', '192.0.2.8']},
			'different',
			/does not point to mail\.example/,
			leadsHere,
		],
		[
			'another host',
			{cname: 'www.example'},
			'different',
			/does not point/,
			{...leadsHere, 'www.example': {a: ['192.0.2.9']}},
		],
		['nothing', null, 'missing', null, leadsHere],
		['no answer', 'servfail', 'unknown', /ESERVFAIL/, leadsHere],
		[
			'no address of ours',
			{a: ['192.0.2.7']},
			'unknown',
			/returned no address for mail\.example/,
			{'mail.example': 'servfail'},
		],
	],
	mta_sts: [
		['the record', {txt: ['v=STSv1; id=20261127abc']}, 'ok'],
		['spelled otherwise', {txt: ['v=STSv1;id=20261127abc;']}, 'ok'],
		['another policy', {txt: ['v=STSv1; id=1']}, 'different', /another policy/],
		['two', {txt: ['v=STSv1; id=20261127abc', 'v=STSv1; id=2']}, 'different', /not a single MTA-STS record/],
		['another text', {txt: ['hello']}, 'different', /not a single MTA-STS record/],
		['nothing', null, 'missing'],
		['no answer', 'servfail', 'unknown', /ESERVFAIL/],
	],
	tls_report: [
		['the record', {txt: ['v=TLSRPTv1; rua=mailto:tlsrpt@bounce.shop.example']}, 'ok'],
		['to others too', {txt: ['v=TLSRPTv1;rua=mailto:a@b.test,mailto:tlsrpt@bounce.shop.example']}, 'ok'],
		['to others', {txt: ['v=TLSRPTv1; rua=mailto:a@b.test']}, 'ok', /go elsewhere/],
		[
			'two',
			{txt: ['v=TLSRPTv1; rua=mailto:a@b.test', 'v=TLSRPTv1; rua=mailto:c@d.test']},
			'different',
			/not a single TLSRPT/,
		],
		['another text', {txt: ['hello']}, 'different', /not a single TLSRPT/],
		['nothing', null, 'missing'],
	],
};

for (const [purpose, list] of Object.entries(cases) as Array<[Purpose, readonly Case[]]>) {
	for (const [about, answer, state, problem = null, more = {}] of list) {
		test(`${purpose}, ${about}: ${state}`, async t => {
			const [name, type, value] = wanted[purpose];
			const alike = purpose === 'return_path' ? ['returns.mail.example'] : [];
			const inside = about === 'of the parent' ? '_dmarc.a.shop.example.org' : name;
			const zone: Zone = {
				'_dmarc.example.org': {txt: ['v=DMARC1; p=none']},
				...(answer && {[inside]: answer}),
				...more,
			};
			const record: DomainRecord = {
				type,
				name: inside,
				value,
				purpose,
				required: true,
				found: [],
				key: null,
				alike,
				note: null,
				ready: true,
			};
			const verdict = await judgeRecord(await resolverOf(t, zone), record);
			t.is(verdict.state, state as typeof verdict.state, verdict.problem ?? '');
			t.regex(verdict.problem ?? '', problem ?? /^$/);
			t.is(verdict.found.length > 0, state === 'ok' || state === 'different' || about.startsWith('an include'));
		});
	}
}

test('SPF of a host covers its addresses, and any record meets a proposal ending in ~all', async t => {
	const judge = async (value: string, zone: Zone) =>
		await judgeRecord(await resolverOf(t, zone), {
			...{type: 'TXT', name: 'bounce.shop.example', value, purpose: 'spf', required: false},
			...{found: [], key: null, alike: [], note: null, ready: true},
		});
	const host: Zone = {'bounces.mail.example': {a: ['192.0.2.1']}};
	const of = (text: string): Zone => ({...host, 'bounce.shop.example': {txt: [text]}});
	const proposal = 'v=spf1 a:bounces.mail.example -all';
	t.like(await judge(proposal, of('v=spf1 ip4:192.0.2.1 -all')), {state: 'ok'});
	t.like(await judge(proposal, of('v=spf1 ip4:192.0.2.2 -all')), {
		state: 'different',
		problem: 'it does not allow 192.0.2.1',
	});
	t.like(await judge(proposal, of(proposal)), {state: 'ok'});
	t.like(await judge('v=spf1 a:nix.example -all', of('v=spf1 a:nix.example -all')), {
		state: 'different',
		problem: 'the sending host has no address',
	});
	t.like(await judge('v=spf1 a:relay.example ~all', of('v=spf1 include:p.example -all')), {state: 'ok'});
	const smarthost = 'v=spf1 include:p.example ~all';
	t.like(await judge(smarthost, of('v=spf1 ip4:192.0.2.9 include:P.example -all')), {state: 'ok', problem: null});
	t.like(await judge(smarthost, of('v=spf1 ip4:192.0.2.9 -all')), {
		state: 'ok',
		problem: 'it does not include p.example: make sure that it covers the same hosts',
	});
	t.like(
		await judge(
			'v=spf1 include:ask-your-provider.invalid ~all',
			of('v=spf1 include:ask-your-provider.invalid ~all'),
		),
		{
			state: 'different',
		},
	);
	t.like(await judge(proposal, {...of('v=spf1 mx -all'), 'bounces.mail.example': 'servfail'}), {state: 'unknown'});
});
