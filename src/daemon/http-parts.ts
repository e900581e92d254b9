import {hkdfSync, randomBytes} from 'node:crypto';
import type {Knex} from 'knex';
import {generateSigningKeys} from '../compose/dkim.ts';
import {type Links, toMessageId, withHost} from '../compose/links/links.ts';
import {servesHttps} from '../config/derive.ts';
import {extraCa} from '../config/settings.ts';
import type {DashboardParts} from '../dashboard/parts.ts';
import {storeTime} from '../kit/time.ts';
import {createTurns} from '../kit/turns.ts';
import type {Operator, Tools} from '../mail/operator.ts';
import {createResolver, openRecordSources} from '../net/resolver.ts';
import {Eraser, erasureWaitMs, type Person} from '../outcome/erase.ts';
import type {createFeed} from '../outcome/feed.ts';
import {ownRetryOf} from '../queue/pace/choose-route.ts';
import type {Alert} from '../resources/alerts/store.ts';
import {createDmarcReview} from '../resources/domains/dmarc.ts';
import {ownHosts, sendingNames} from '../resources/domains/domain-records.ts';
import {findLinkHost} from '../resources/domains/store.ts';
import {FailedLogIns} from '../resources/users/failed-log-ins.ts';
import {createLogIn} from '../resources/users/log-in.ts';
import {Oidc} from '../resources/users/oidc.ts';
import {Passkeys} from '../resources/users/passkeys.ts';
import {Sessions} from '../resources/users/sessions.ts';
import {AddressGuard, toGuard} from '../resources/webhooks/address-guard.ts';
import type {MasterKeys} from '../store/sealed.ts';
import {sendTest} from './alerts.ts';
import type {Context} from './context.ts';
import type {Intake} from './intake.ts';
import {RecipientMessages} from './recipient-messages.ts';
import {postExample} from './webhook-posting.ts';

export const dnsTimeoutMs = 5000;

type HttpTools = {
	readonly accept: Intake['accept'];
	readonly feed: ReturnType<typeof createFeed>;
	readonly links: Links;
	readonly publicUrl: () => string;
};

/** Creates what the API and the dashboard share. */
export function createHttpParts(context: Context, {accept, feed, links, publicUrl}: HttpTools) {
	const {settings, store, keys, vault, clock, newId, eventWriter, removeCaptured} = context;
	const {reader, writer} = store;

	async function change<Result>(work: (trx: Knex.Transaction) => Promise<Result>): Promise<Result> {
		const result = await writer.transaction(work);
		context.forget();
		return result;
	}

	const eraser = new Eraser({store, clock, eventWriter, removeCaptured, waitLimitMs: erasureWaitMs});

	return {
		reader,
		change,
		writer,
		tools: {clock, newId, random: randomBytes},
		vault,
		accept,
		erase: (person: Person, operator: Operator) => eraser.erase(person, operator),
		feed,
		domains: createDomainParts(context),
		messageContent: new RecipientMessages({settings, store, vault, secrets: keys, clock, publicUrl}),
		async preferencesLink(person: {readonly workspaceId: string; readonly address: string}) {
			const expiresAt = clock.now() + settings.tokenLifetime;
			const now = storeTime(clock.now());
			const host = await findLinkHost(reader, person.workspaceId, now, servesHttps(settings));
			const base = publicUrl();
			return {url: (host ? withHost(base, host) : base) + links.personUrl({...person, expiresAt}), expiresAt};
		},
		readMessageId: links.readMessageId,
		messageIdOf: (id: string, from: string) => toMessageId(links, id, from),
		webhooks: {
			guard: new AddressGuard(toGuard(settings)),
			reportDue: eventWriter.onDue,
			postExample: (endpoint: Parameters<typeof postExample>[1]) => postExample(context, endpoint),
		},
		testAlert: (alert: Alert) => sendTest({...context, reader}, alert),
		publicUrl,
		mayAccept: context.mayAccept,
	};
}

export type HttpParts = ReturnType<typeof createHttpParts>;

function createDomainParts({settings, store, clock}: Context) {
	const names = sendingNames(settings);
	const keyTurns = createTurns();
	const openSources = () =>
		openRecordSources({servers: settings.dnsServers, allowPrivate: settings.allowPrivateMx, clock});
	return {
		names,
		ownHosts: ownHosts(settings),
		openSources,
		reviewDmarc: createDmarcReview({reader: store.reader, names, openSources, clock}),
		// As in `roles.ts`: if no mail leaves the machine, no records are needed.
		areChecked: settings.delivery !== 'capture',
		makeKeys: (workspaceId: string) => keyTurns(workspaceId, generateSigningKeys),
	};
}

/** Creates what the dashboard needs. */
export function createDashboardParts(
	context: Context,
	parts: HttpParts,
	process: DashboardParts['process'],
): DashboardParts {
	const {settings, store, keys, clock} = context;
	const resolver = createResolver({servers: settings.dnsServers, timeoutMs: dnsTimeoutMs, tries: 1, clock});
	return {
		...parts,
		settings,
		live: context.live,
		version: context.version,
		bounceRules: context.bounceRules,
		ownRetryOf: destination => ownRetryOf(destination, settings.delivery, context.destinations(), resolver),
		process,
		store,
		secrets: keys,
		...createLogIns(context, parts.tools),
		apiUrl: parts.publicUrl,
	};
}

/** Creates the dashboard's sign-in methods, which count failures together, and its sessions. */
function createLogIns({settings, store, vault}: Context, tools: Tools) {
	const {clock, newId} = tools;
	const {oidcIssuer: issuer, oidcClientId: clientId, oidcClientSecret: clientSecret} = settings;
	const attempts = new FailedLogIns(clock);
	return {
		sessions: new Sessions({store, ...tools}),
		logIn: createLogIn({store, vault, clock, attempts}),
		passkeys: new Passkeys({store, vault, clock, newId, attempts}),
		oidc:
			issuer === null || clientId === null
				? null
				: new Oidc({issuer, clientId, clientSecret, ca: extraCa(settings), store, vault, clock}),
	};
}

/** Derives the key of cursors from the current key alone, because cursors live only for minutes. */
export function cursorKey({keys, current}: MasterKeys): Uint8Array {
	return new Uint8Array(hkdfSync('sha256', keys[current] as Uint8Array, '', 'cursor', 32));
}
