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

// How users authenticate, at login and when they confirm their identity.

/** Returns what is stored about the client of a session. */
export const clientOf = ({ip, headers}: FastifyRequest) => ({address: ip, agent: headers['user-agent'] ?? ''});

/** Returns the origin in the browser, or `null` for an IP address, at which passkeys do not work. */
export function siteOf({protocol, host, hostname}: FastifyRequest): DashboardOrigin | null {
	return isIP(bare(hostname)) === 0 ? {origin: `${protocol}://${host}`, host: hostname} : null;
}

const bare = (hostname: string) => hostname.replace(/^\[|\]$/g, '');

/** Returns a page that explains why login is refused on an unencrypted connection, or `null` if it is allowed. */
export function unencrypted(request: FastifyRequest): Page | null {
	const {protocol, hostname, host} = request;
	if (protocol === 'https' || hostname === 'localhost' || isLoopbackAddress(bare(hostname))) {
		return null;
	}
	const port = host.slice(hostname.length + 1) || '80';
	const content = html`<p>You opened this page over http from another machine. Others on the network could read your password and take over your session, so you cannot sign in here.</p>
<p>Do one of these:</p>
<ul><li>Run <code>ssh -L ${port}:localhost:${port} ${hostname}</code> and open <code>http://localhost:${port}</code>. The admin listener must be on loopback for that.</li>
<li>Put a proxy with https in front, set MAILCTL_PUBLIC_URL to its address and MAILCTL_TRUST_PROXY to its IP address, and let it send X-Forwarded-Proto.</li></ul>`;
	return {kind: 'page', status: 403, place: null, title: 'Sign in over an encrypted connection', content};
}

/** Returns the path of our own page to return to; any other text in the query is ignored. */
export function returnTarget(query: URLSearchParams): string {
	const to = query.get('to') ?? '';
	return /^\/(?![/\\])[\x21-\x7e]*$/.test(to) ? to : '/';
}

/** Shows a button to create or use a passkey, if scripts run and the browser supports passkeys. */
export function passkeyForm(
	kind: 'create' | 'get',
	{options, pending}: PasskeyRequest<unknown>,
	{to, label, fields = nothing}: {readonly to: string; readonly label: string; readonly fields?: Html},
): Html {
	const inputs = html`${fields}<input type="hidden" name="pending" value="${pending}"><input type="hidden" name="answer" data-passkey="${kind}" data-options="${JSON.stringify(options)}"><p class="soft" role="alert"></p>`;
	return html`<div data-passkeys hidden>${act({to, label, fields: inputs, look: 'main'})}</div>`;
}

/** Shows the form that sets a password. */
export function newPassword({email, password_hash}: User): Html {
	const field = {name: 'password', label: 'New password', type: 'password', required: true} as const;
	const fields = html`<input type="hidden" name="username" autocomplete="username" value="${email}">${input({...field, autocomplete: 'new-password'})}`;
	const form = act({
		to: '/account/password',
		label: password_hash === null ? 'Set the password' : 'Change the password',
		fields,
	});
	return html`<p class="soft">At least 12 characters, such as three or four words. This ends your other sessions.</p>${form}`;
}

/** Shows the form that creates a passkey, or explains why that is impossible here. */
export async function newPasskey(parts: DashboardParts, user: User, request: FastifyRequest): Promise<Html> {
	const site = siteOf(request);
	if (site === null) {
		const port = request.host.split(':').at(-1) ?? '';
		return html`<p class="soft">Passkeys do not work at an IP address. To create one, sign in at ${code(`http://localhost:${port}`)}.</p>`;
	}
	const passkeyRequest = await parts.passkeys.createRegistrationRequest(user, site);
	const fields = input({
		name: 'name',
		label: 'Name of the passkey',
		placeholder: 'Phone',
	});
	return html`${passkeyForm('create', passkeyRequest, {to: '/account/passkeys', label: 'Add a passkey', fields})}<noscript><p class="soft">Passkeys require scripts in the browser.</p></noscript>`;
}

/** Reads the form of a passkey. An answer that is not JSON becomes `null`. */
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
	hint: 'The six digits that your app shows now. Lost it? An admin can create a link with mailctl user link.',
});

const busySeconds = 5;

/** Returns the error that the page shows after a failed login. `message` is that of wrong credentials. */
export function toProblem(
	result: Exclude<LogIn, {readonly ok: true}>,
	message: string,
): Pick<Page, 'status' | 'problem' | 'retryAfter'> {
	switch (result.reason) {
		case 'limited': {
			const {seconds} = result;
			const problem = `Too many failed attempts. Try again in ${Math.ceil(seconds / 60)} min.`;
			return {status: 429, problem, retryAfter: seconds};
		}
		case 'busy':
			return {
				status: 503,
				retryAfter: busySeconds,
				problem: `Too many people are signing in. Try again in ${busySeconds} seconds.`,
			};
		case 'code_needed':
			return {};
		case 'code_wrong':
			return {status: 403, problem: 'This code is wrong or was used already. Wait for the next one.'};
		case 'wrong':
			return {status: 403, problem: message};
	}
}
