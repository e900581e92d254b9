import {randomBytes} from 'node:crypto';
import {hostname} from 'node:os';
import type {Knex} from 'knex';
import {createLinks} from '../compose/links/links.ts';
import {dayMs, storeTime} from '../kit/time.ts';
import {parseAddress} from '../mail/address.ts';
import type {AlertMessage} from '../mail/alert.ts';
import type {NewId} from '../mail/ids.ts';
import {createResolver} from '../net/resolver.ts';
import {readConditions} from '../resources/alerts/conditions.ts';
import {findMailRefusal} from '../resources/alerts/rules.ts';
import {sendAlert} from '../resources/alerts/send.ts';
import type {Alert} from '../resources/alerts/store.ts';
import {AlertWatch} from '../resources/alerts/watch.ts';
import type {Context} from './context.ts';
import {createPosting} from './threads/posting.ts';
import {ClockWatch} from './upkeep.ts';
import {toPosting} from './webhook-posting.ts';

type SendingParts = Pick<Context, 'settings' | 'version' | 'vault' | 'clock'> & {readonly reader: Knex};

const dnsTimeoutMs = 5000;

/** Sends an alert message from this thread. Returns why it was not sent, or `null`. */
async function send({settings, version, vault, clock, reader}: SendingParts, alert: Alert, message: AlertMessage) {
	const refusal = await findMailRefusal(reader, alert, message.event === 'confirm');
	if (refusal !== null) {
		return refusal;
	}
	const resolver = createResolver({servers: settings.dnsServers, timeoutMs: dnsTimeoutMs, tries: 1, clock});
	const createPoster = () => createPosting(toPosting(settings, version), clock);
	return await sendAlert({settings, clock, vault, resolver, createPoster}, alert, message);
}

/** Sends a test message now. Returns why it was not sent, or `null`. */
export async function sendTest(
	{newId, ...parts}: SendingParts & {readonly newId: NewId},
	alert: Alert,
): Promise<string | null> {
	const at = storeTime(parts.clock.now());
	return await send(parts, alert, {id: newId('alm'), event: 'test', at, conditions: []});
}

type WatchOptions = {
	readonly installed: () => string;
	readonly mailboxUp: () => boolean | null;
	/** The base URL of links in confirmation messages. */
	readonly publicUrl: string;
};

/** How long the link in a confirmation message is valid. */
const linkMs = 7 * dayMs;

/** Creates the watch for alert conditions. Every daemon has one. */
export function createAlertWatch(context: Context, {installed, mailboxUp, publicUrl}: WatchOptions): AlertWatch {
	const {settings, live, store, clock, newId, version, observer, keys, refusals} = context;
	const links = createLinks({keys, publicUrl, random: randomBytes});
	const withLink = ({workspace_id: workspaceId, target}: Alert, message: AlertMessage): AlertMessage => {
		const parsed = parseAddress(target, {allowsUtf8Local: false});
		return message.event === 'confirm' && workspaceId !== null && parsed.ok
			? {
					...message,
					link: links.alertUrl({workspaceId, address: parsed.address.key, expiresAt: clock.now() + linkMs}),
				}
			: message;
	};
	const clockWatch = new ClockWatch(clock);
	const minFreeDisk = () => live().minFreeDisk;
	const sources = {settings, minFreeDisk, store, clock, version, installed, mailboxUp, refusals, host: hostname()};
	return new AlertWatch({
		store,
		clock,
		newId,
		logger: observer.logger,
		storeFailed: observer.storeFailed,
		read: kind => readConditions(kind, {...sources, clockStep: () => clockWatch.step()}),
		send: (alert, message) => send({...context, reader: store.reader}, alert, withLink(alert, message)),
	});
}
