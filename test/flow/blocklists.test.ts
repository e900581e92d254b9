import test from 'ava';
import {prepareProgram} from '../helpers/daemon.ts';
import {visitorOf} from '../helpers/dashboard.ts';
import {publish, type ToPublish} from '../helpers/domain-zone.ts';
import {type FakeDns, startFakeDns} from '../helpers/fake-dns.ts';
import {serviceOf} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';

const listed = {a: ['127.0.0.2'], txt: ['Blocked - see <https://list.test/>']};
let dns: FakeDns;
const service = serviceOf(test, {
	workspaces: {shop: []},
	async settings(scope) {
		dns = await startFakeDns(scope, {
			'2.0.0.127.zen.spamhaus.org': {a: ['127.255.255.254']},
			'2.0.0.127.b.barracudacentral.org': 'servfail',
			'2.0.0.127.bl.spamcop.net': listed,
			'2.0.0.127.psbl.surriel.com': listed,
			'14.215.184.93.bl.spamcop.net': listed,
		});
		return {
			MAILCTL_DELIVERY: 'mx',
			MAILCTL_HOSTNAME: 'out.mail.example',
			MAILCTL_SOURCE_ADDRESSES: '93.184.215.14,127.0.0.9',
			MAILCTL_DNS_SERVERS: dns.server,
			MAILCTL_ALLOW_PRIVATE_MX: 'true',
		};
	},
});

test('shows blocklist results on the Health page, in the metrics and in doctor', async t => {
	const visitor = await visitorOf(service(), 'admin');
	const metrics = async () =>
		(await (await fetch(`${service().url}/metrics`)).text())
			.split('\n')
			.filter(line => line.startsWith('mailctl_blocklisted{'));
	await waitFor('the lists have answered', async () => (await metrics()).length === 2);
	t.deepEqual((await metrics()).toSorted(), [
		'mailctl_blocklisted{source="93.184.215.14",zone="bl.spamcop.net"} 1',
		'mailctl_blocklisted{source="93.184.215.14",zone="psbl.surriel.com"} 0',
	]);

	const {text} = await visitor.get('/health');
	t.regex(text, /<span class="badge bad">listed<\/span> SpamCop, first seen <time[^>]*>[^<]*<\/time>/);
	t.regex(text, /Blocked - see &lt;https:\/\/list\.test\/&gt;/);
	t.regex(
		text,
		/<a href="https:\/\/www\.spamcop\.net\/bl\.shtml\?93\.184\.215\.14" rel="noreferrer">Request removal<\/a>/,
	);
	t.regex(text, /unknown<\/span> Spamhaus ZEN: <bdi>the list refuses this resolver<\/bdi>/);
	t.regex(text, /unknown<\/span> Barracuda: <bdi>no response \(ESERVFAIL\)<\/bdi>/);
	t.regex(text, /clear<\/span> on 1 list</);
	t.notRegex(text, /127\.0\.0\.9<\/bdi><\/td>/, 'no list is asked for an address that is not public');

	const {program} = service();
	const {records} = await program.cli<{records: readonly ToPublish[]}>(
		'domain',
		'add',
		'green.example',
		'--workspace',
		'shop',
	);
	publish(dns.zone, records);
	await program.cli('domain', 'verify', 'green.example', '--workspace', 'shop');
	dns.zone['dbltest.com.dbl.spamhaus.org'] = {a: ['127.0.1.2']};
	dns.zone['green.example.dbl.spamhaus.org'] = {a: ['127.0.1.4']};
	const checks = (await visitor.get('/health/checks')).text;
	for (const found of [
		'93.184.215.14 is on bl.spamcop.net (127.0.0.2): Blocked - see &lt;https://list.test/&gt;',
		'93.184.215.14 is on 1 of 2 blocklists that responded; no result from zen.spamhaus.org: the list refuses this resolver; no result from b.barracudacentral.org: no response (ESERVFAIL)',
		'green.example is on dbl.spamhaus.org (127.0.1.4)',
		'green.example is on 1 of 1 blocklists that responded; no result from multi.surbl.org: the list lacks its test entry (RFC 5782)',
		'then request removal: https://check.spamhaus.org/results/?query=green.example',
	]) {
		t.true(checks.includes(found), found);
	}
});

test('queries no blocklist where no messages leave the machine', async t => {
	const quiet = await startFakeDns(t, {});
	const program = await prepareProgram(t, {
		...{MAILCTL_DELIVERY: 'capture', MAILCTL_SOURCE_ADDRESSES: '93.184.215.14', MAILCTL_DNS_SERVERS: quiet.server},
	});
	await program.cliBytes('init');
	const {records} = await program.cli<{records: readonly ToPublish[]}>('domain', 'add', 'blue.example');
	publish(quiet.zone, records);
	await program.cli('domain', 'verify', 'blue.example');
	const asked = quiet.queries.length;
	const daemon = await program.serve();
	t.regex(await (await fetch(`${daemon.url}/metrics`)).text(), /^# TYPE mailctl_blocklisted gauge$/m);
	t.is(await daemon.stop(), 0);
	t.deepEqual(quiet.queries.slice(asked), []);
});
