import test from 'ava';
import {openStore} from '../../src/store/store.ts';
import {type Visitor, visitorOf} from '../helpers/dashboard.ts';
import {publish, type ToPublish} from '../helpers/domain-zone.ts';
import {type FakeDns, startFakeDns} from '../helpers/fake-dns.ts';
import {serviceOf} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';

let dns: FakeDns;
const service = serviceOf(test, {
	workspaces: {shop: [], busy: []},
	async settings(scope) {
		dns = await startFakeDns(scope, {'out.mail.example': {a: ['192.0.2.1']}});
		return {
			MAILCTL_DELIVERY: 'mx',
			MAILCTL_ALLOW_PRIVATE_MX: 'true',
			MAILCTL_HOSTNAME: 'out.mail.example',
			MAILCTL_DNS_SERVERS: dns.server,
		};
	},
});

type Shown = {readonly state: string; readonly records: ReadonlyArray<ToPublish & {readonly state: string}>};
const show = (name: string) => service().program.cli<Shown>('domain', 'show', name, '--workspace', 'shop');

/** Adds a domain through the form; returns the path of its page. */
async function added(visitor: Visitor, name: string): Promise<string> {
	const {status, location} = await visitor.submit('/domains', {name});
	if (status !== 303 || location === null) {
		throw new Error(`${name} was not added: ${status}`);
	}
	return location;
}

test('adds, publishes and verifies a domain', async t => {
	const admin = await visitorOf(service(), 'admin', 'shop');
	const page = await added(admin, 'green.example');
	const {text} = await admin.get(page);
	const {records} = await show('green.example');
	for (const {name, value} of records) {
		t.true(text.includes(`data-copy="${name}"`) && text.includes(`data-copy="${value}"`), name);
	}
	t.regex((await admin.get(`${page}?dns=now`)).text, /publish either of these.*_mailctl\.green\.example/s);

	t.is((await admin.submit(`${page}/verify`)).status, 303);
	t.is((await show('green.example')).state, 'pending');
	publish(dns.zone, records);
	const verified = await admin.submit(`${page}/verify`);
	const after = await admin.get(verified.location ?? '');
	t.regex(after.text, /green\.example is verified/);
	t.is(after.text.match(/class="badge good">published/g)?.length, records.length);
	t.notRegex(after.text, /publish either of these/);

	const zone = await admin.get(`${page}/zone`);
	t.is(zone.headers.get('content-disposition'), 'attachment; filename="green.example.zone"');
	t.regex(zone.text, /^mc1\._domainkey\.green\.example\. 3600 IN TXT "v=DKIM1/m);
});

test.serial('queues a few concurrent additions of domains and rejects the rest with 503', async t => {
	const admin = await visitorOf(service(), 'admin', 'busy');
	const adding = Array.from({length: 40}, (_, n) => admin.submit('/domains', {name: `many${n}.example`}));
	const seen = await Promise.all(adding);
	const answers = seen.map(({status}) => status);
	const refused = seen.find(({status}) => status === 503);
	t.regex(refused?.text ?? '', /<h1>Request failed<\/h1>/, 'keys are made one after the other');
	t.is(refused?.headers.get('retry-after'), '5');
	t.true(answers.filter(status => status === 303).length >= 9);
	t.deepEqual([...new Set(answers)].toSorted(), [303, 503]);
});

test('shows the DNS response beside the expected record if they differ', async t => {
	const admin = await visitorOf(service(), 'admin', 'shop');
	const page = await added(admin, 'wrong.example');
	dns.zone['_mailctl.wrong.example'] = {txt: ['<script>alert(1)</script>\u202e']};
	const {text} = await admin.get(`${page}?dns=now`);
	t.regex(text, /its text is different/);
	t.true(text.includes('<bdi>&lt;script&gt;alert(1)&lt;/script&gt;'));
});

test('shows TLS results of a verified domain, and none of other domains', async t => {
	const admin = await visitorOf(service(), 'admin', 'shop');
	const page = await added(admin, 'tls.example');
	const seen = {day: new Date().toISOString().slice(0, 10), policy: 'sts', domain: 'bounce.tls.example'};
	const store = await openStore(service().store);
	t.teardown(() => store.close());
	await store.writer.transaction(
		async trx =>
			void (await trx('tls_report_days').insert([
				{...seen, result: 'success', n: 1808},
				{...seen, result: 'certificate-expired', n: 4},
				{...seen, domain: 'tls.example', result: 'success', n: 9},
				{...seen, domain: 'bounce.other-tls.example', result: 'success', n: 7},
				{...seen, day: '2026-01-01', result: 'tlsa-invalid', n: 3},
			])),
	);
	t.regex((await admin.get(page)).text, /<h2[^>]*>TLS<\/h2>.*No reports in the last 30 days\./s, 'it is not proven');
	let text = '';
	// The daemon's first check of the new domain may still be under way, and finds no records.
	await waitFor('the page of a verified domain', async () => {
		await store.writer.transaction(
			async trx => void (await trx('domains').where({name: 'tls.example'}).update({state: 'verified'})),
		);
		({text} = await admin.get(page));
		return text.includes('certificate-expired');
	});
	t.regex(text, /certificate-expired<\/span><\/td><td[^>]*>4 of 1,812<.*1,808 of 1,812.*9 of 9/s);
	t.notRegex(text, /other-tls|tlsa-invalid/);
});

test('rotates keys and cancels a rotation', async t => {
	const admin = await visitorOf(service(), 'admin', 'shop');
	const page = await added(admin, 'keys.example');
	t.is((await admin.submit(`${page}/keys/rotate`)).location, page);
	t.regex((await admin.get(page)).text, /mc3\._domainkey\.keys\.example.*Cancel rotation/s);
	t.is((await admin.submit(`${page}/keys/rotate`)).status, 422, 'one at a time');
	await admin.submit(`${page}/keys/cancel`);
	t.notRegex((await admin.get(page)).text, /mc3\._domainkey/);
});

test('adds, disables, enables and removes senders on the page of their domain', async t => {
	const admin = await visitorOf(service(), 'admin', 'shop');
	const operator = await visitorOf(service(), 'admin');
	const page = await added(admin, 'senders.example');
	const address = 'orders@senders.example';
	const stateOf = async () =>
		/<bdi>orders@senders\.example<\/bdi>.*?badge \w+">(\w+)</s.exec((await admin.get(page)).text)?.[1];
	const refused = await admin.submit(`${page}/senders`, {address: 'orders@elsewhere.example', name: '<b>Shop'});
	t.is(refused.status, 422);
	t.regex(refused.text, /must end with @senders\.example/);
	t.true(refused.text.includes('value="&lt;b&gt;Shop"'), 'what was typed is kept');

	t.is((await admin.submit(`${page}/senders`, {address, name: '<b>Shop'})).location, page);
	t.is((await admin.submit(`${page}/senders`, {address})).status, 422, 'it is there already');
	t.is(await stateOf(), 'unverified');
	const {text} = await admin.get(page);
	t.true(text.includes('<bdi>&lt;b&gt;Shop</bdi>'));
	const [, id = ''] = /senders\/(snd_\w+)/.exec(text) ?? [];
	for (const [step, state] of [
		['verify', 'ready'],
		['disable', 'disabled'],
		['enable', 'ready'],
	] as const) {
		await (step === 'verify' ? operator : admin).submit(`${page}/senders/${id}/${step}`);
		t.is(await stateOf(), state, step);
	}
	const elsewhere = await added(admin, 'other-senders.example');
	t.is((await admin.submit(`${elsewhere}/senders/${id}/disable`)).status, 404, 'it is of another domain');

	t.is((await admin.submit(`${page}/remove`, {typed: 'senders.example'})).status, 422, 'it has a sender');
	t.is((await admin.submit(`${page}/senders/${id}/remove`, {typed: 'yes'})).status, 422);
	t.is(await stateOf(), 'ready');
	await admin.submit(`${page}/senders/${id}/remove`, {typed: address});
	t.is(await stateOf(), undefined);
	t.is((await admin.submit(`${page}/remove`, {typed: 'senders'})).status, 422);
	await admin.submit(`${page}/remove`, {typed: 'senders.example'});
	t.is((await admin.get(page)).status, 404);
});

test('shows the form again for an invalid or existing domain', async t => {
	const admin = await visitorOf(service(), 'admin', 'shop');
	const refused = await admin.submit('/domains', {name: 'no domain"', return_path_domain: 'kept.example'});
	t.is(refused.status, 422);
	t.true(refused.text.includes('value="no domain&quot;"') && refused.text.includes('value="kept.example"'));
	for (const host of ['bounce.shop.example', 'b.example', 'no host.b.example']) {
		t.is((await admin.submit('/domains', {name: 'b.example', return_path_domain: host})).status, 422, host);
	}
	await added(admin, 'twice.example');
	t.regex((await admin.submit('/domains', {name: 'twice.example'})).text, /twice\.example already exists/);
	t.is((await admin.submit('/domains', {name: 'own.example', return_path_domain: 'own.example'})).status, 422);
});

test('shows viewers the records but no form', async t => {
	const admin = await visitorOf(service(), 'admin', 'shop');
	const page = await added(admin, 'seen.example');
	const viewer = await visitorOf(service(), 'viewer', 'shop');
	for (const path of ['/domains', page]) {
		const {status, text} = await viewer.get(path);
		t.is(status, 200);
		t.regex(text, /seen\.example/);
		t.deepEqual(
			[...text.matchAll(/action="([^"]+)"/g)].map(([, to]) => to),
			['/logout'],
		);
	}
});
