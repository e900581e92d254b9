import type {Knex} from 'knex';
import type {Routes} from '../api/api-parts.ts';
import type {Links} from '../compose/links/links.ts';
import type {Clock} from '../kit/clock.ts';
import type {NewId} from '../mail/ids.ts';
import type {EventWriter} from '../outcome/outbox.ts';
import {createUnsubscribeWrite, type Unsubscription} from '../outcome/unsubscribe.ts';
import type {Writer} from '../store/engine/writer.ts';
import {alertConsentRoutes} from './alert-consent.ts';
import {lostPage, sendPage} from './branded-page.ts';
import {chooseTexts} from './language.ts';
import {createLinkPages} from './linked.ts';
import {preferencePages} from './preferences.ts';
import type {Collector} from './tracking.ts';
import {trackingRoutes} from './tracking.ts';
import {unsubscribePages} from './unsubscribe.ts';

type PublicParts = {
	/** Verifies the tokens of links. */
	readonly links: Links;
	readonly reader: Knex;
	readonly writer: Writer;
	/** Records opens and clicks. */
	readonly collector: Pick<Collector, 'add'>;
	readonly clock: Clock;
	readonly eventWriter: EventWriter;
	readonly newId: NewId;
	readonly random: (size: number) => Buffer;
};

/**
 * The routes of links in messages. `src/hosted` serves everything that recipients, mail providers and certificate
 * authorities request without an API key: unsubscribing, preferences, tracking, provider events, ACME challenges and
 * the MTA-STS policy. It relies on the signed tokens of `src/compose/links` to authenticate a request and on
 * `src/outcome` to change anything. It never trusts a workspace's texts as markup, and a GET never changes a
 * subscription.
 */
export function publicRoutes({
	links,
	reader,
	writer,
	collector,
	clock,
	eventWriter,
	newId,
	random,
}: PublicParts): Routes[] {
	const unsubscribeWrite = createUnsubscribeWrite(eventWriter);
	const unsubscribe = (item: Unsubscription) => writer.submit(unsubscribeWrite, item);
	const page = createLinkPages({links, reader, clock, random});
	return [
		page(unsubscribePages({reader, unsubscribe, clock})),
		page(preferencePages({reader, unsubscribe, clock})),
		alertConsentRoutes({links, writer, tools: {clock, newId, random}}),
		trackingRoutes({
			links,
			collector,
			sendForged: ({headers}, reply) => {
				const acceptLanguage = headers['accept-language'];
				return sendPage(reply, random, lostPage(chooseTexts({preferred: [], acceptLanguage, fallback: null})));
			},
			clock,
		}),
	];
}
