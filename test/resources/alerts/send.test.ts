import {createHmac} from 'node:crypto';
import test, {type ExecutionContext} from 'ava';
import {loadSettings} from '../../../src/config/settings.ts';
import {createPosting} from '../../../src/daemon/threads/posting.ts';
import {toPosting} from '../../../src/daemon/webhook-posting.ts';
import {systemClock} from '../../../src/kit/clock.ts';
import type {AlertChannel, AlertMessage, Condition} from '../../../src/mail/alert.ts';
import {createResolver} from '../../../src/net/resolver.ts';
import {checkTarget} from '../../../src/resources/alerts/rules.ts';
import {sendAlert} from '../../../src/resources/alerts/send.ts';
import type {Alert} from '../../../src/resources/alerts/store.ts';
import {AddressGuard, toGuard} from '../../../src/resources/webhooks/address-guard.ts';
import {makeCertificate} from '../../helpers/certificate.ts';
import {temporaryFolder} from '../../helpers/databases.ts';
import {startFakeDns} from '../../helpers/fake-dns.ts';
import {startFakeMx} from '../../helpers/fake-mx.ts';
import {startReceiver} from '../../helpers/receiver.ts';
import {testVault} from '../../helpers/tools.ts';

const disk: Condition = {
	kind: 'disk',
	subject: 'vm disk',
	workspaceId: null,
	detail: 'vm: 3 MB are free',
	fix: 'free some',
};
const at = '2026-06-09T10:15:30.000Z';
const began: AlertMessage = {id: 'alm_1', event: 'began', at, conditions: [{...disk, since: at}]};

function alertOf(way: AlertChannel, target: string, secret: string | null = null): Alert {
	return {
		...{
			id: 'alr_1',
			workspace_id: null,
			way,
			target,
			secret: secret === null ? null : testVault.seal('alr_1', secret),
		},
		...{sender: null, kinds: null, muted_until: null, sent_at: null, error: null, created_at: at},
	};
}

async function sender(t: ExecutionContext, env: Readonly<Record<string, string>>) {
	const cwd = await temporaryFolder(t);
	const loaded = loadSettings({env: {MAILCTL_DATA_DIR: cwd, ...env}, cwd, hostname: 'mail.shop.example', cpus: 1});
	if (!loaded.ok) {
		throw new Error(loaded.problems.join('\n'));
	}
	const {settings} = loaded;
	const options = {
		...{settings, clock: systemClock, vault: testVault},
		resolver: createResolver({servers: settings.dnsServers, timeoutMs: 60_000, tries: 1, clock: systemClock}),
		createPoster: () => createPosting(toPosting(settings, '1.0.0'), systemClock),
	};
	return {settings, send: (alert: Alert, message = began) => sendAlert(options, alert, message)};
}

test('email: tries the configured routes in order with their credentials, and says what to do', async t => {
	const first = await startFakeMx(t, {greeting: '421 not now'});
	const certificate = makeCertificate('localhost');
	const second = await startFakeMx(t, {tls: certificate, extensions: ['STARTTLS', 'AUTH PLAIN']});
	const urls = `smtp://127.0.0.1:${first.port}?tls=none,smtp://ann:secret@127.0.0.1:${second.port}?tls=unverified`;
	const {send} = await sender(t, {MAILCTL_ALERT_SMTP_URL: urls, MAILCTL_DELIVERY: 'capture'});
	t.is(await send(alertOf('mail', 'ops@shop.example')), null);
	const [mail] = second.received;
	t.deepEqual(
		[mail?.from, mail?.to, mail?.connection.tls],
		['mailctl@mail.shop.example', ['ops@shop.example'], true],
	);
	const text = mail?.data.toString().replaceAll('=\r\n', '') ?? '';
	t.regex(text, /^Subject: \[mailctl mail\.shop\.example\] Began: vm: 3 MB are free\r$/m);
	t.regex(text, /^Auto-Submitted: auto-generated\r$/m);
	t.regex(text, /Since 2026-06-09 10:15 UTC\. To do: free some\./);
	t.regex(text, /mailctl alert mute alr_1 --for 2h/);
});

test('email without a route goes to the mail servers of the address, never while capturing', async t => {
	const mx = await startFakeMx(t, {host: '127.0.0.1'});
	const dns = await startFakeDns(t, {
		'shop.example': {mx: [[10, 'mx.shop.example']]},
		'mx.shop.example': {a: ['127.0.0.1']},
	});
	const lab = {MAILCTL_DNS_SERVERS: dns.server, MAILCTL_MX_PORT: String(mx.port), MAILCTL_ALLOW_PRIVATE_MX: 'true'};
	const {send} = await sender(t, {...lab, MAILCTL_DELIVERY: 'mx', MAILCTL_HOSTNAME: 'mail.shop.example'});
	t.is(await send(alertOf('mail', 'ops@shop.example')), null);
	t.deepEqual(mx.received[0]?.to, ['ops@shop.example']);
	t.regex((await send(alertOf('mail', 'ops@nowhere.example'))) ?? '', /nowhere\.example/);

	const captured = await sender(t, {MAILCTL_DELIVERY: 'capture'});
	t.regex((await captured.send(alertOf('mail', 'ops@shop.example'))) ?? '', /set MAILCTL_ALERT_SMTP_URL/);
});

test('email: reports a refusal, an invalid certificate and a wrong password', async t => {
	const refusing = await startFakeMx(t, {rcpt: '550 5.1.1 no such user'});
	const tls = await startFakeMx(t, {tls: makeCertificate('other.example')});
	const password = await startFakeMx(t, {
		tls: makeCertificate('localhost'),
		extensions: ['STARTTLS', 'AUTH PLAIN'],
		auth: '535 5.7.8 no',
	});
	for (const [url, said] of [
		[`smtp://127.0.0.1:${refusing.port}?tls=none`, /550 5\.1\.1 no such user/],
		[`smtp://127.0.0.1:${tls.port}?tls=required`, /certificate|altnames/i],
		[`smtp://ann:secret@127.0.0.1:${password.port}?tls=unverified`, /535/],
	] as const) {
		const {send} = await sender(t, {MAILCTL_ALERT_SMTP_URL: url});
		const error = (await send(alertOf('mail', 'ops@shop.example'))) ?? '';
		t.regex(error, said);
		t.notRegex(error, /secret/);
	}
	t.is(tls.received.length, 0);
});

test('webhook: posts a signed event or a Slack text, and reports redirects and refusals', async t => {
	const receiver = await startReceiver(t, null, {
		answer: ({path}, response) =>
			void response.writeHead(path === '/ok' ? 200 : 302, {location: 'http://127.0.0.1/'}).end(),
	});
	const at = `http://127.0.0.1:${receiver.port}`;
	const {send, settings} = await sender(t, {MAILCTL_DELIVERY: 'capture'});
	t.is(await send(alertOf('webhook', `${at}/ok`, 'whsec_x')), null);
	const [post] = receiver.received;
	const body = JSON.parse(post?.body.toString() ?? '');
	t.like(body, {id: 'alm_1', type: 'alert.began', host: 'mail.shop.example'});
	t.like(body.conditions[0], {kind: 'disk', workspace: null, detail: 'vm: 3 MB are free', since: began.at});
	const mac = createHmac('sha256', 'whsec_x')
		.update(`${post?.headers['x-webhook-timestamp']}.`)
		.update(post?.body ?? '');
	t.is(post?.headers['x-webhook-signature'], `sha256=${mac.digest('hex')}`);

	t.is(await send(alertOf('slack', `${at}/…`, `${at}/ok`)), null);
	t.regex(JSON.parse(receiver.received[1]?.body.toString() ?? '').text, /^\*\[mailctl .*\] Began: vm: 3 MB/);
	const sly = {...disk, since: at, detail: '<!channel> & <https://evil.example|log in>'};
	t.is(await send(alertOf('slack', `${at}/…`, `${at}/ok`), {...began, conditions: [sly]}), null);
	const text: string = JSON.parse(receiver.received[2]?.body.toString() ?? '').text;
	t.true(text.includes('&lt;!channel&gt; &amp; &lt;https:'), text);
	t.notRegex(text, /[<>]/);
	const moved = await send(alertOf('slack', `${at}/…`, `${at}/secret`));
	t.regex(moved ?? '', /the server responded with 302/);
	t.notRegex(moved ?? '', /secret/);
	t.regex(
		(await send(alertOf('webhook', `${at}/?token=abc`, 'whsec_x'))) ?? '',
		/^127\.0\.0\.1:\d+: the server responded with 302/,
	);

	const guard = new AddressGuard(toGuard({...settings, delivery: 'mx'}));
	for (const target of [at, 'https://10.0.0.1/x', 'https://localhost/x', 'ftp://x.example', 'x']) {
		t.throws(() => checkTarget(url => guard.urlProblem(url), {way: 'webhook', target}), {message: /^webhook must/});
	}
	t.throws(() => checkTarget(() => null, {way: 'mail', target: 'ops'}), {message: /^mail /});
});
