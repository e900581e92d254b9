import {extraCa} from '../config/ca.ts';
import type {Settings} from '../config/settings.ts';
import {capturedFolder} from '../deliver/capture.ts';
import type {BounceRule} from '../mail/bounce-rule.ts';
import {ownAddresses} from '../routing/own-addresses.ts';
import type {SenderData} from '../threads/sender.ts';

/** What sender threads are started with, as the settings say. `time`: of the daemon's clock. */
export function senderData(
	settings: Settings,
	bounceRules: readonly BounceRule[],
	time: SharedArrayBuffer,
): SenderData {
	const ca = extraCa(settings);
	return {
		...(ca === null ? {} : {ca}),
		mode:
			settings.delivery === 'capture'
				? {kind: 'capture', folder: capturedFolder(settings.dataDir)}
				: {kind: 'hosts', port: settings.mxPort},
		hostname: settings.hostname,
		timeouts: settings.smtpTimeouts,
		attemptDeadlineMs: settings.attemptDeadline,
		ipv6: settings.ipv6,
		allowPrivateMx: settings.allowPrivateMx,
		ownAddresses: ownAddresses(settings),
		maxSessions: Math.max(1, Math.floor(settings.maxSessions / settings.senders)),
		dnsServers: settings.dnsServers,
		dane: settings.dane,
		bounceRules,
		time,
	};
}
