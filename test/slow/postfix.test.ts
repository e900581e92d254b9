import {domainToASCII} from 'node:url';
import test, {type ExecutionContext} from 'ava';
import {type Daemon, type Program, prepareProgram, type Settings} from '../helpers/daemon.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import type {StoredMail} from '../helpers/maildir.ts';
import {type Postfix, startPostfix} from '../helpers/peers/postfix.ts';
import {call, eachOf, openShop, type Shop} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';
import {checkLetter, checkSignatures} from './letters.ts';
import {domains, makeOrders, type Order} from './orders.ts';

const messages = 500;
const ownMailboxes = 40;
const patience = 180_000;
const common: Settings = {
	MAILCTL_HOSTNAME: 'mail.shop.example',
	MAILCTL_PUBLIC_URL: 'https://mail.shop.example',
	MAILCTL_RETURN_PATH_DOMAIN: 'bounce.shop.example',
	MAILCTL_RATE_LIMIT: '0',
};

type Run = {
	readonly program: Program;
	readonly shop: Shop;
	readonly daemon: Daemon;
	readonly orders: readonly Order[];
	/** Message ids by order number. */
	readonly ids: ReadonlyMap<string, string>;
	readonly stored: readonly StoredMail[];
};

test('500 messages reach Postfix through its MX record unchanged', async t => {
	t.timeout(600_000);
	const mx = await startMx(t);
	if (!mx) {
		return;
	}

	const dns = await startFakeDns(t, {
		...Object.fromEntries(domains.map(domain => [domainToASCII(domain), {mx: [[10, mx.hostname]] as const}])),
		[mx.hostname]: {a: ['127.0.0.1']},
	});
	const run = await sendOrders(t, mx, {
		...common,
		MAILCTL_DELIVERY: 'mx',
		MAILCTL_DNS_SERVERS: dns.server,
		MAILCTL_MX_PORT: String(mx.port),
		MAILCTL_ALLOW_PRIVATE_MX: 'true',
	});
	t.true(
		run.stored.every(({received}) => received.length === 1 && / with ESMTPS /.test(received[0] ?? '')),
		'one hop, encrypted',
	);
	await checkRun(t, run, 'delivered');
});

test('500 messages pass Postfix as a relay, with password and STARTTLS, and arrive unchanged', async t => {
	t.timeout(600_000);
	const mx = await startMx(t);
	const auth = {user: 'shop@provider', password: 'pa ss:w@rd/ü'};
	const smarthost = mx && (await startPostfix(t, {hostname: 'smtp.provider.example', auth, relayTo: mx.port}));
	if (!smarthost) {
		return;
	}

	const [user, password] = [auth.user, auth.password].map(encodeURIComponent);
	const run = await sendOrders(t, mx, {
		...common,
		MAILCTL_DELIVERY: 'relay',
		MAILCTL_RELAY_URL: `smtp://${user}:${password}@127.0.0.1:${smarthost.port}?tls=unverified`,
	});
	t.true(
		run.stored.every(({received}) => received.length === 2 && / with ESMTPSA /.test(received[1] ?? '')),
		'two hops, the first one encrypted and with a password',
	);
	t.false((await run.program.log()).includes(auth.password), 'the log holds no password');
	await checkRun(t, run, 'sent');
});

async function startMx(t: ExecutionContext): Promise<Postfix | null> {
	const anybody: Shop = {from: '', key: '', templates: new Map(), dkim: {}};
	return startPostfix(t, {
		hostname: 'mx.mail.example',
		domains: domains.map(domainToASCII),
		// The others share one: looking into hundreds of folders again and again would take the time of the mail.
		mailboxes: makeOrders(anybody, ownMailboxes).flatMap(({recipients}) => recipients),
	});
}

/** Sends all orders over the API and waits until every recipient has the message in a Maildir. */
async function sendOrders(t: ExecutionContext, mx: Postfix, settings: Settings): Promise<Run> {
	const program = await prepareProgram(t, settings);
	const shop = await openShop(program, 'test/fixtures/flow/templates');
	const daemon = await program.serve();
	const orders = makeOrders(shop, messages);
	const ids = new Map<string, string>();
	await eachOf(orders, 16, async ({number, send}) => {
		const {status, body} = await call(`${daemon.url}/v1/messages`, shop.key, send);
		t.is(status, 202, JSON.stringify(body));
		ids.set(number, (body as {id: string}).id);
	});

	const recipients = orders.flatMap(order => order.recipients);
	await waitFor('every copy lies in a Maildir', async () => (await mx.count()) >= recipients.length, patience);
	const stored = await mx.mails();
	t.deepEqual(stored.map(({deliveredTo}) => deliveredTo).sort(), recipients.sort(), 'each copy once, nothing else');
	return {program, shop, daemon, orders, ids, stored};
}

async function checkRun(t: ExecutionContext, run: Run, status: 'delivered' | 'sent'): Promise<void> {
	const {program, shop, daemon, orders, ids, stored} = run;
	const byRecipient = new Map(stored.map(mail => [mail.deliveredTo, mail]));
	for (const order of orders) {
		const [first, ...others] = order.recipients.map(address => byRecipient.get(address));
		const messageId = await checkLetter(t, order, first);
		for (const recipient of others) {
			t.is(await checkLetter(t, order, recipient), messageId, 'all copies have one Message-ID');
		}
	}

	t.is(new Set(stored.map(({returnPath}) => returnPath)).size, stored.length, 'each copy has its own return path');
	t.true(stored.every(({returnPath}) => /^b[0-9a-z]{44}@bounce\.shop\.example$/.test(returnPath)));
	await checkSignatures(t, shop, stored);

	await eachOf(ids.values(), 8, async id => {
		await waitFor(
			`${id} is ${status}`,
			async () => {
				const {body} = await call(`${daemon.url}/v1/messages/${id}`, shop.key);
				return (body as {status: string}).status === status;
			},
			patience,
		);
	});
	t.is(await daemon.stop(), 0);
	t.false((await program.log()).includes(shop.key), 'the log holds no key');
}
