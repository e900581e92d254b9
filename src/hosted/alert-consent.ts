import type {FastifyReply, FastifyRequest, FastifySchema} from 'fastify';
import type {Routes} from '../api/api-parts.ts';
import {alertPagePath, type Links} from '../compose/links/links.ts';
import type {Tools} from '../mail/operator.ts';
import {agreeToAlerts} from '../outcome/alert-consent.ts';
import type {Writer} from '../store/engine/writer.ts';
import {noticePage, type Page, sendPage} from './branded-page.ts';
import {acceptForms} from './form.ts';
import {type Html, html} from './html.ts';
import {en} from './texts/wording.ts';

type ConsentParts = {
	readonly links: Pick<Links, 'readAlertConsent'>;
	readonly writer: Pick<Writer, 'transaction'>;
	readonly tools: Tools;
};

const formLimit = 1024;

/**
 * The page behind the link in a confirmation message. GET changes nothing, because mail scanners follow links; the
 * button submits the consent. The page shows no text that a workspace could choose, because it appears to come from the
 * installation.
 */
export function alertConsentRoutes({links, writer, tools}: ConsentParts): Routes {
	async function respond(request: FastifyRequest, hasAgreed: boolean): Promise<Page> {
		const {token} = request.query as {readonly token?: unknown};
		const consent = typeof token === 'string' ? links.readAlertConsent(token) : null;
		if (consent === null) {
			return noticePage('forged', 400, en, null);
		}
		if (consent.expiresAt <= tools.clock.now()) {
			return noticePage('expired', 410, en, null);
		}
		if (!hasAgreed) {
			return questionPage(consent.address);
		}
		const actTools = {...tools, operator: {actor: 'link', from: request.ip}};
		const isConfirmed = await writer.transaction(trx => agreeToAlerts(trx, actTools, consent));
		return isConfirmed ? donePage(consent.address) : noticePage('expired', 410, en, null);
	}

	const send = (reply: FastifyReply, page: Page) => sendPage(reply, tools.random, page);
	return api => {
		api.register(async scope => {
			acceptForms(scope, () => formLimit);
			const schema: FastifySchema = {hide: true};
			scope.get(alertPagePath, {schema}, async (request, reply) => send(reply, await respond(request, false)));
			scope.post(alertPagePath, {schema}, async (request, reply) => send(reply, await respond(request, true)));
		});
	};
}

const okPage = (icon: Page['icon'], title: string, content: Html): Page => ({
	status: 200,
	texts: en,
	brand: null,
	icon,
	title,
	content,
});

const questionPage = (address: string): Page =>
	okPage(
		'letter',
		'Receive alerts at this address?',
		html`<p>Someone asked mailctl to send alerts to <bdi class="address">${address}</bdi>: notifications about problems with a mail service.</p>
<form method="post"><button class="main">Receive alerts</button></form>
<p class="soft">If you did not expect this, close this page. You will not receive any alerts.</p>`,
	);

const donePage = (address: string): Page =>
	okPage('done', 'Address confirmed', html`<p>Alerts will be sent to <bdi class="address">${address}</bdi>.</p>`);
