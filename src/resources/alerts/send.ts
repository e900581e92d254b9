import {isIP} from 'node:net';
import {rootCertificates} from 'node:tls';
import type {SendMailOptions} from 'nodemailer';
import type {Settings} from '../../config/settings.ts';
import {extraCa} from '../../config/settings.ts';
import {routesTo} from '../../doctor/doctor.ts';
import {type Clock, inTime} from '../../kit/clock.ts';
import {withoutControls} from '../../kit/text.ts';
import {domainOf} from '../../mail/address.ts';
import type {AlertMessage} from '../../mail/alert.ts';
import type {Resolver} from '../../net/dns.ts';
import type {Relay} from '../../net/relay-url.ts';
import type {Vault} from '../../store/sealed.ts';
import type {Poster, PostResult} from '../webhooks/post.ts';
import type {Alert} from './store.ts';
import {composeAlertText, toWebhookBody} from './words.ts';

type AlertSenderOptions = {
	readonly settings: Settings;
	readonly clock: Clock;
	readonly vault: Vault;
	readonly resolver: Resolver;
	/** Creates a poster for one request. */
	readonly createPoster: () => Pick<Poster, 'post' | 'close'>;
};

/** The time limit for one message. It can delay the shutdown of the daemon by as much. */
const limitMs = 20_000;

/**
 * Sends an alert without the queue, which may be what is broken. Returns `null` if it was sent, otherwise the reason
 * for the failure. Never rejects.
 */
export async function sendAlert(
	options: AlertSenderOptions,
	alert: Alert,
	message: AlertMessage,
): Promise<string | null> {
	try {
		await inTime(
			limitMs,
			() => new Error(`not finished within ${limitMs / 1000} s`),
			() => (alert.way === 'mail' ? mail(options, alert, message) : post(options, alert, message)),
		);
		return null;
	} catch (error) {
		return withoutControls((error as Error).message);
	}
}

async function post(
	{settings, vault, createPoster}: AlertSenderOptions,
	alert: Alert,
	message: AlertMessage,
): Promise<void> {
	const secret = vault.open(alert.id, alert.secret ?? '');
	const isSlack = alert.way === 'slack';
	const {subject, lines} = composeAlertText(message, settings.hostname, alert.id);
	const body = isSlack
		? {text: escapeForSlack([`*${subject}*`, ...lines].join('\n'))}
		: toWebhookBody(message, settings.hostname);
	const poster = createPoster();
	let result: PostResult;
	try {
		result = await poster.post({
			id: message.id,
			url: isSlack ? secret : alert.target,
			signing: {secret: isSlack ? message.id : secret, next: null},
			body: Buffer.from(JSON.stringify(body)),
		});
	} finally {
		poster.close();
	}
	if (result.error !== null) {
		// Only the host, because the URL may contain a secret and this error is logged.
		throw new Error(`${new URL(alert.target).host}: ${result.error}`);
	}
}

/** Escapes the characters that start links and mentions in Slack, because the text contains untrusted input. */
const escapeForSlack = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

type RouteOptions = Pick<AlertSenderOptions, 'settings' | 'clock' | 'resolver'>;

/** The route of alert messages: a relay, or the recipient's own mail servers. */
type Route = {
	readonly host: string;
	readonly port: number;
	readonly servername: string;
	readonly relay: Relay | null;
	readonly plain?: boolean;
};

async function mail(options: AlertSenderOptions, alert: Alert, message: AlertMessage): Promise<void> {
	const {settings} = options;
	const {subject, lines} = composeAlertText(message, settings.hostname, alert.id);
	const from = alert.sender ?? `mailctl@${settings.hostname}`;
	const content: SendMailOptions = {
		from: {name: 'mailctl', address: from},
		to: alert.target,
		subject,
		text: lines.join('\n'),
		messageId: `<${message.id}@${settings.hostname}>`,
		// Prevents vacation replies (RFC 3834 §5).
		headers: {'Auto-Submitted': 'auto-generated'},
	};
	await sendDirectly(options, alert.target, content);
}

/**
 * Sends a message without the queue, as alerts are. Rejects if no mail server accepts it. `allowPlaintext` retries
 * without TLS if that fails, because a report about TLS problems must arrive (RFC 8460 §3).
 */
export async function sendDirectly(
	options: RouteOptions,
	target: string,
	content: SendMailOptions,
	allowPlaintext = false,
): Promise<void> {
	let lastError = new Error('no mail server was found for the address');
	const routes = await findRoutes(options, target);
	const unencrypted = allowPlaintext
		? routes.filter(({relay}) => relay === null).map(route => ({...route, plain: true}))
		: [];
	for (const route of [...routes, ...unencrypted]) {
		try {
			return await sendVia(options.settings, route, content);
		} catch (error) {
			lastError = error as Error;
		}
	}
	throw lastError;
}

async function findRoutes({settings, resolver, clock}: RouteOptions, target: string): Promise<readonly Route[]> {
	const relays = settings.alertRelays.length > 0 ? settings.alertRelays : settings.relays.filter(({api}) => !api);
	if (relays.length > 0) {
		return relays.map(relay => ({host: relay.host, port: relay.port, servername: relay.host, relay}));
	}
	if (settings.delivery === 'capture') {
		throw new Error('messages are captured here (MAILCTL_DELIVERY=capture): set MAILCTL_ALERT_SMTP_URL');
	}
	const hosts = await routesTo(domainOf(target), {settings, resolver, clock});
	if (typeof hosts === 'string') {
		throw new Error(hosts);
	}
	return hosts.map(({name, address, port}) => ({host: address, port, servername: name, relay: null}));
}

async function sendVia(
	settings: Settings,
	{host, port, servername, relay, plain = false}: Route,
	content: SendMailOptions,
): Promise<void> {
	const {createTransport} = await import('nodemailer');
	const ca = extraCa(settings);
	const transport = createTransport({
		host,
		port,
		name: settings.hostname,
		secure: relay?.secure ?? false,
		...(relay?.user && relay.password && {auth: {user: relay.user, pass: relay.password}}),
		requireTLS: relay !== null && (relay.tls === 'required' || relay.tls === 'unverified'),
		ignoreTLS: plain || relay?.tls === 'none',
		opportunisticTLS: relay === null || relay.tls === 'opportunistic',
		tls: {
			...(isIP(servername) === 0 && {servername}),
			rejectUnauthorized: relay?.tls === 'required',
			...(ca && {ca: [...rootCertificates, ca]}),
		},
		connectionTimeout: 5000,
		greetingTimeout: 5000,
		socketTimeout: 10_000,
	});
	try {
		await transport.sendMail(content);
	} finally {
		transport.close();
	}
}
