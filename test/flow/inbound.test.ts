import {writeFileSync} from 'node:fs';
import path from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {openStore, type Store} from '../../src/store/store.ts';
import {bounceFor} from '../bench/report-load.ts';
import {makeCertificate} from '../helpers/certificate.ts';
import {eventsOf, prepareProgram} from '../helpers/daemon.ts';
import {loadReports} from '../helpers/report-load.ts';
import {inboundPort, insertDeliveredIn} from '../helpers/sent-recipients.ts';
import {talkTo} from '../helpers/smtp-talk.ts';
import {waitFor} from '../helpers/wait.ts';

const domain = 'bounces.shop.example';

async function listening(t: ExecutionContext, settings: Readonly<Record<string, string>> = {}) {
	const program = await prepareProgram(t, {
		MAILCTL_INBOUND_LISTEN: '127.0.0.1:0',
		MAILCTL_RETURN_PATH_DOMAIN: domain,
		MAILCTL_HOSTNAME: 'mail.shop.example',
		...settings,
	});
	await program.cliBytes('init');
	const dataDir = path.join(program.folder, 'data');
	return {program, dataDir};
}

async function storeOf(t: ExecutionContext, dataDir: string): Promise<Store> {
	const store = await openStore({file: path.join(dataDir, 'mailctl.db')});
	t.teardown(() => store.close());
	return store;
}

async function countOf(store: Store, unread = false): Promise<number> {
	const rows = store.reader('inbound').count('* as n');
	return Number((await (unread ? rows.whereNull('read_at') : rows))[0]?.n);
}

async function figureOf(url: string, name: string): Promise<number | undefined> {
	const text = await (await fetch(`${url}/metrics`)).text();
	const line = text.split('\n').find(one => one.startsWith(`${name} `) || one.startsWith(`${name}{`));
	return line === undefined ? undefined : Number(line.split(' ').at(-1));
}

test('accepts a bounce for one of our recipients and rejects forged tokens and relaying', async t => {
	const {program, dataDir} = await listening(t, {MAILCTL_LOG_LEVEL: 'debug'});
	const [recipient, other] = await insertDeliveredIn(dataDir, ['anna@example.net', 'bert@example.net'], domain);
	const daemon = await program.serve();
	const talk = await talkTo(t, inboundPort(dataDir));
	t.is(await talk.reply(), '220 mail.shop.example ESMTP mailctl');
	await talk.say('EHLO peer.test');
	await talk.say('MAIL FROM:<>');
	const [path1 = '', path2 = ''] = [recipient?.returnPath, other?.returnPath];
	t.regex(await talk.say(`RCPT TO:<${path1.slice(0, 29)}${path2.slice(29)}>`), /^550 5\.1\.1/);
	t.regex(await talk.say('RCPT TO:<x@other.example>'), /^550 5\.7\.1/);
	t.regex(await talk.say(`RCPT TO:<a%other.example@${domain}>`), /^550 5\.1\.1/);
	// The domain of the sender has a return path of its own, though DNS does not show it yet.
	t.regex(await talk.say(`RCPT TO:<${path1.replace(domain, 'bounce.shop.example')}>`), /^250/);
	t.regex(await talk.data(bounceFor(path1, 'anna@example.net', 1)), /^250 2\.6\.0 Stored as [0-9a-f]{16}$/);

	const [taken] = await waitFor('it is logged', async () => {
		const events = await eventsOf(program, 'inbound_read');
		return events.length > 0 ? eventsOf(program, 'inbound_taken') : null;
	});
	t.deepEqual(taken?.roles, ['return_path']);
	t.is(taken?.client, '127.0.0.1');
	t.notRegex(await program.log(), new RegExp(path1.slice(0, 45)));
	t.is(await figureOf(daemon.url, 'mailctl_inbound_unread'), 0);
	t.is(await figureOf(daemon.url, 'mailctl_inbound_refused_total'), 2);

	// A domain that is added while it runs.
	await program.cliBytes('domain', 'add', 'new.example', '--workspace', 'sent');
	await waitFor('the new domain is known', async () => {
		// A session ends after 20 refusals, which a slow machine reaches before the daemon knows.
		const another = await talkTo(t, inboundPort(dataDir));
		await another.reply();
		await another.say('EHLO peer.test');
		await another.say('MAIL FROM:<>');
		const answer = await another.say('RCPT TO:<postmaster@bounce.new.example>');
		await another.say('QUIT');
		return answer.startsWith('250');
	});
	t.is(await daemon.stop(), 0);
	t.regex(await talk.reply(), /^421/);
});

test('after kill -9, reports acknowledged with 250 are processed once at the next start', async t => {
	const {program, dataDir} = await listening(t);
	const addresses = Array.from({length: 1500}, (_, n) => `user${n}@example.net`);
	const recipients = await insertDeliveredIn(dataDir, addresses, domain);
	const daemon = await program.serve();
	const port = inboundPort(dataDir);
	const loading = loadReports({port, connections: 10, recipients, perSecond: null});
	const store = await storeOf(t, dataDir);
	await waitFor('some are taken', async () => (await countOf(store)) > 100);
	await daemon.kill();
	const {taken} = await loading;
	const stored = await countOf(store);
	t.true(stored >= taken, `${taken} were answered with 250, ${stored} are there`);
	t.true(taken > 50 && stored < addresses.length, `${taken} taken, ${stored} stored`);

	await program.serve();
	await waitFor('all are read', async () => (await countOf(store, true)) === 0);
	t.is(await countOf(store), stored);
	// Each bounce had its effect once.
	for (const query of [store.reader('reports'), store.reader('events').where({type: 'bounced'})]) {
		const messages: string[] = await query.pluck('message_id');
		t.is(messages.length, stored);
		t.is(new Set(messages).size, stored);
	}
});

test('offers STARTTLS with a certificate that SIGHUP reloads', async t => {
	const [first, second] = [makeCertificate('mail.shop.example'), makeCertificate('mail.shop.example')];
	const {program, dataDir} = await listening(t);
	const [cert, key] = [path.join(program.folder, 'cert.pem'), path.join(program.folder, 'key.pem')];
	const publish = (one: typeof first) => {
		writeFileSync(cert, one.cert);
		writeFileSync(key, one.key);
	};
	publish(first);
	const daemon = await program.serve({MAILCTL_INBOUND_TLS_CERT: cert, MAILCTL_INBOUND_TLS_KEY: key});
	const authorized = async (ca: string) => {
		const talk = await talkTo(t, inboundPort(dataDir));
		await talk.reply();
		await talk.say('EHLO peer.test');
		await talk.say('STARTTLS');
		const secure = await talk.secure({ca, servername: 'mail.shop.example', rejectUnauthorized: false});
		return secure.authorized;
	};
	t.true(await authorized(first.cert));
	publish(second);
	daemon.signal('SIGHUP');
	await waitFor('it has the new certificate', () => authorized(second.cert));

	writeFileSync(cert, 'none');
	daemon.signal('SIGHUP');
	await waitFor('it refuses a broken one', async () => (await eventsOf(program, 'reload_refused')).length > 0);
	t.true(await authorized(second.cert));
	t.is(await daemon.stop(), 0);
});
