import {type ProviderName, providerNames} from '../../src/mail/provider.ts';
import {prepareProgram, type Scope, type Settings} from './daemon.ts';
import {type FakeMx, startFakeMx} from './fake-mx.ts';
import {clientOf} from './mail-hosts.ts';
import {type FakeSns, sendgridKeys, startFakeSns} from './provider-posts.ts';
import {waitFor} from './wait.ts';

export type Added = {readonly id: string; readonly url: string; readonly secret: string | null};

/** A daemon whose mail goes by a smarthost that answers with an id for each mail. */
export async function startRelaying(t: Scope, sns?: FakeSns, settings: Settings = {}) {
	let n = 0;
	const relay = await startFakeMx(t, {
		dot: () => {
			n += 1;
			return `250 2.0.0 Ok: queued as 4BF2-${n}`;
		},
	});
	const program = await prepareProgram(t, {
		MAILCTL_DELIVERY: 'relay',
		MAILCTL_RELAY_URL: `smtp://127.0.0.1:${relay.port}?tls=none`,
		MAILCTL_HOSTNAME: 'mail.shop.example',
		MAILCTL_RATE_LIMIT: '0',
		...(sns && {MAILCTL_PROVIDER_HOSTS: `sns=${sns.at}`}),
		...settings,
	});
	const daemon = await program.serve();
	return {relay, program, daemon, client: await clientOf(program, daemon)};
}

/** How the provider echoes our token, from the mail that it got. */
export const echoed: Readonly<Record<ProviderName, RegExp>> = {
	ses: /^X-SES-MESSAGE-TAGS: mailctl-ref=(r\w{44})\r$/m,
	sendgrid: /^X-SMTPAPI: \{"unique_args":\{"mailctl-ref":"(r\w{44})"\}\}\r$/m,
	mailgun: /^X-Mailgun-Variables: \{"mailctl-ref":"(r\w{44})"\}\r$/m,
	postmark: /^X-PM-Metadata-mailctl-ref: (r\w{44})\r$/m,
	brevo: /^X-Mailin-custom: \{"mailctl-ref":"(r\w{44})"\}\r$/m,
	mailjet: /^X-MJ-CustomID: (r\w{44})\r$/m,
	sparkpost: /^X-MSYS-API: \{"metadata":\{"mailctl-ref":"(r\w{44})"\}\}\r$/m,
	generic: /^X-Mailctl-Ref: (r\w{44})\r$/m,
};

export const mailTo = ({received}: FakeMx, to: string) =>
	received.find(mail => mail.to.some(one => one.includes(to)))?.data;

/** A smarthost of each provider at one daemon, and how to post as its provider. */
export async function startAll(t: Scope, settings: Settings = {}) {
	const sns = await startFakeSns(t);
	const {relay, program, daemon, client} = await startRelaying(t, sns, settings);
	const {key, shown} = sendgridKeys();
	const added = new Map<ProviderName, Added>();
	for (const provider of providerNames) {
		const own = provider === 'sendgrid' ? ['--secret', shown] : [];
		added.set(provider, await program.cli<Added>('smarthost', 'add', provider, ...own));
	}
	// The running daemon learns of the smarthosts before mail goes.
	await waitFor('mail has the fields that the providers echo', async () => {
		const to = `probe-${Math.random()}@example.org`;
		await client.until(await client.send(to), 'sent');
		const mail = mailTo(relay, to)?.toString('latin1') ?? '';
		return Object.values(echoed).every(field => field.test(mail));
	});
	const urlOf = (provider: ProviderName) => daemon.url + new URL(added.get(provider)?.url ?? '').pathname;
	return {
		...{relay, program, daemon, client, sns, key, urlOf, keys: {sns, sendgridKey: key}, sendgridShown: shown},
		secretOf: (provider: ProviderName) => added.get(provider)?.secret ?? '',
		post: async (provider: ProviderName, body: string, headers: Readonly<Record<string, string>>) =>
			(await fetch(urlOf(provider), {method: 'POST', body, headers})).status,
	};
}
