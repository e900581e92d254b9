import {isIP} from 'node:net';
import type {FastifyRequest} from 'fastify';
import {type Html, html} from '../hosted/html.ts';
import {isLoopbackAddress} from '../net/ip-address.ts';
import type {LogIn} from '../resources/users/log-in.ts';
import type {DashboardOrigin, PasskeyRequest} from '../resources/users/passkeys.ts';
import type {User} from '../resources/users/store.ts';
import {act, code, input, nothing} from './markup.ts';
import type {DashboardParts} from './parts.ts';
import type {Page} from './route.ts';

// How users authenticate: what the log-in and the re-authentication have in common.

/** What the store keeps of the client of a session. */
export const clientOf = ({ip, headers}: FastifyRequest) => ({address: ip, agent: headers['user-agent'] ?? ''});

/** Where the browser is; null: at an address, for which no passkey can be. */
export function siteOf({protocol, host, hostname}: FastifyRequest): DashboardOrigin | null {
	return isIP(bare(hostname)) === 0 ? {origin: `${protocol}://${host}`, host: hostname} : null;
}

const bare = (hostname: string) => hostname.replace(/^\[|\]$/g, '');

/** Reason login is disabled; null if enabled. */
export function unencrypted(request: FastifyRequest): Page | null {
	const {protocol, hostname, host} = request;
	if (protocol === 'https' || hostname === 'localhost' || isLoopbackAddress(bare(hostname))) {
		return null;
	}
	const port = host.slice(hostname.length + 1) || '80';
	const content = html`<p>This page came over http from another machine. Others on the network could read your password and take over your session, so you cannot log in here.</p>
<p>Do one of these:</p>
<ul><li>Run <code>ssh -L ${port}:localhost:${port} ${hostname}</code> and open <code>http://localhost:${port}</code>. The admin listener must be on loopback for that.</li>
<li>Put a proxy with https in front, set MAILCTL_PUBLIC_URL to its address and MAILCTL_TRUST_PROXY to its IP address, and let it send X-Forwarded-Proto.</li></ul>`;
	return {kind: 'page', status: 403, place: null, title: 'Log in over an encrypted connection', content};
}

/** The path of ours to return to; any other text in the link is ignored. */
export function wayBack(query: URLSearchParams): string {
	const to = query.get('to') ?? '';
	return /^\/(?![/\\])[\x21-\x7e]*$/.test(to) ? to : '/';
}

/**
 * A button for a passkey. `kind`: what the browser is asked. It shows only where scripts run and the browser has
 * passkeys.
 */
export function passkeyForm(
	kind: 'create' | 'get',
	{options, pending}: PasskeyRequest<unknown>,
	{to, label, fields = nothing}: {readonly to: string; readonly label: string; readonly fields?: Html},
): Html {
	const hidden = html`${fields}<input type="hidden" name="pending" value="${pending}"><input type="hidden" name="answer" data-passkey="${kind}" data-options="${JSON.stringify(options)}"><p class="soft" role="alert"></p>`;
	return html`<div data-passkeys hidden>${act({to, label, fields: hidden, look: 'main'})}</div>`;
}

/** The form that sets a password. */
export function newPassword({email, password_hash}: User): Html {
	const field = {name: 'password', label: 'New password', type: 'password', required: true} as const;
	const fields = html`<input type="hidden" name="username" autocomplete="username" value="${email}">${input({...field, autocomplete: 'new-password'})}`;
	const form = act({
		to: '/account/password',
		label: password_hash === null ? 'Set the password' : 'Change the password',
		fields,
	});
	return html`<p class="soft">At least 12 characters; three or four words are good. Your other sessions end.</p>${form}`;
}

/** The form that makes a passkey, or why there can be none here. */
export async function newPasskey(parts: DashboardParts, user: User, request: FastifyRequest): Promise<Html> {
	const site = siteOf(request);
	if (site === null) {
		const port = request.host.split(':').at(-1) ?? '';
		return html`<p class="soft">A passkey needs a host name, and you are at an address. To make one, log in at ${code(`http://localhost:${port}`)}.</p>`;
	}
	const asked = await parts.passkeys.createRegistrationRequest(user, site);
	const fields = input({
		name: 'name',
		label: 'Name of the passkey',
		placeholder: 'Phone',
	});
	return html`${passkeyForm('create', asked, {to: '/account/passkeys', label: 'Add a passkey', fields})}<noscript><p class="soft">Passkeys need scripts in the browser.</p></noscript>`;
}

/** What the form of a passkey sent; what is not JSON counts as no answer. */
export function parsePasskey(form: URLSearchParams): {readonly pending: string; readonly answer: unknown} {
	const pending = form.get('pending') ?? '';
	try {
		return {pending, answer: JSON.parse(form.get('answer') ?? '')};
	} catch {
		return {pending, answer: null};
	}
}

export const passwordField = input({
	name: 'password',
	label: 'Password',
	type: 'password',
	required: true,
	autocomplete: 'current-password',
});

export const codeField = input({
	name: 'code',
	label: 'One-time code',
	required: true,
	autocomplete: 'one-time-code',
	hint: 'The six digits that your app shows now. Lost it? An admin makes a link with mailctl user link.',
});

const busySeconds = 5;

/** What the page says after a failed log-in. */
export function toProblem(
	result: Exclude<LogIn, {readonly ok: true}>,
	wrong: string,
): Pick<Page, 'status' | 'problem' | 'retryAfter'> {
	switch (result.reason) {
		case 'limited': {
			const {seconds} = result;
			const problem = `There were too many failed attempts. Try again in ${Math.ceil(seconds / 60)} min.`;
			return {status: 429, problem, retryAfter: seconds};
		}
		case 'busy':
			return {
				status: 503,
				retryAfter: busySeconds,
				problem: `Too many people are logging in. Try again in ${busySeconds} seconds.`,
			};
		case 'code_needed':
			return {};
		case 'code_wrong':
			return {status: 403, problem: 'This code is wrong or was used before. Wait for the next one.'};
		case 'wrong':
			return {status: 403, problem: wrong};
	}
}
