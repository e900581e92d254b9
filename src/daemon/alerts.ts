import {hostname} from 'node:os';
import {looksOf} from '../alerts/conditions.ts';
import {sendAlert} from '../alerts/send.ts';
import {AlertWatch} from '../alerts/watch.ts';
import {createResolver} from '../dns/resolver.ts';
import {storeTime} from '../kit/time.ts';
import type {AlertMessage} from '../mail/alert.ts';
import type {NewId} from '../mail/ids.ts';
import type {Alert} from '../store/alerts.ts';
import {createPosting} from '../threads/posting.ts';
import type {Context} from './context.ts';
import {ClockWatch} from './upkeep.ts';
import {postingOf} from './webhook-posting.ts';

type SendingParts = Pick<Context, 'settings' | 'version' | 'vault' | 'clock'>;

const dnsTimeoutMs = 5000;

/** Sends the messages of alerts as the settings say, from this thread. */
function send({settings, version, vault, clock}: SendingParts, alert: Alert, message: AlertMessage) {
	const resolver = createResolver({servers: settings.dnsServers, timeoutMs: dnsTimeoutMs, tries: 1, clock});
	const createPoster = () => createPosting(postingOf(settings, version), clock);
	return sendAlert({settings, clock, vault, resolver, createPoster}, alert, message);
}

/** Sends a test now; null: it went out, else why it did not. */
export async function sendTest(
	{newId, ...parts}: SendingParts & {readonly newId: NewId},
	alert: Alert,
): Promise<string | null> {
	const at = storeTime(parts.clock.now());
	return await send(parts, alert, {id: newId('alm'), event: 'test', at, conditions: []});
}

/** Looks for what is wrong, in every daemon. */
export function createAlertWatch(
	context: Context,
	{installed, mailboxUp}: {readonly installed: () => string; readonly mailboxUp: () => boolean | null},
): AlertWatch {
	const {settings, store, clock, newId, version, observer} = context;
	const clockWatch = new ClockWatch(clock);
	const input = {settings, store, clock, version, installed, mailboxUp, host: hostname()};
	return new AlertWatch({
		...{store, clock, newId, logger: observer.logger, storeFailed: observer.storeFailed},
		looks: looksOf({...input, clockStep: () => clockWatch.step()}),
		send: (alert, message) => send(context, alert, message),
	});
}
