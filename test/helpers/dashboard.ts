import {routes} from './dashboard-routes.ts';
import type {Service} from './service.ts';

/** What somebody's browser got. */
export type Seen = {
	readonly status: number;
	readonly headers: Headers;
	readonly text: string;
	/** Where a form led. */
	readonly location: string | null;
};

/**
 * Somebody's browser without scripts: keeps cookies, sends forms with the token that the pages have. Paths, also those
 * in answers, are without the workspace (`/w/shop`), which is the one visited last; only `exact` keeps it.
 */
export type Visitor = {
	readonly get: (path: string) => Promise<Seen>;
	/** Sends a form as people fill it in. */
	readonly submit: (path: string, fields?: Readonly<Record<string, string>>) => Promise<Seen>;
	/** A request as it is, without the token. */
	readonly raw: (path: string, init: RequestInit) => Promise<Seen>;
	readonly exact: (path: string, init?: RequestInit) => Promise<Seen>;
	/** The cookies as a browser of a test takes them. */
	readonly cookies: () => ReadonlyArray<{readonly name: string; readonly value: string}>;
};

type Role = 'viewer' | 'operator' | 'admin';
let users = 0;

/** A user who was added by command, logged in by their link. `workspace`: the only one that they may see. */
export async function visitorOf(
	{program, url}: Pick<Service, 'program' | 'url'>,
	role: Role,
	workspace?: string,
): Promise<Visitor> {
	users++;
	const more = workspace === undefined ? [] : ['--workspace', workspace];
	const email = `${role}${users}@staff.example`;
	const {link} = await program.cli<{link: string}>('user', 'add', email, '--role', role, ...more);
	const visitor = strangerTo(url);
	const seen = await visitor.get(new URL(link).pathname);
	if (seen.status !== 200) {
		throw new Error(`The link of ${email} answered ${seen.status}: ${seen.text}`);
	}
	return visitor;
}

/** A browser in which nobody is logged in. */
export function strangerTo(url: string): Visitor {
	const jar = new Map<string, string>();
	const cookieHeader = () => [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
	/** That of the last page that was asked for it. */
	let token = {cookies: '', value: ''};

	async function exact(path: string, init: RequestInit = {}): Promise<Seen> {
		const headers = new Headers(init.headers);
		headers.set('cookie', cookieHeader());
		const answer = await fetch(new URL(path, url), {redirect: 'manual', ...init, headers});
		for (const line of answer.headers.getSetCookie()) {
			const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
			if (value === '' || /max-age=0|1970/i.test(line)) {
				jar.delete(name);
			} else {
				jar.set(name, value);
			}
		}
		// A stream does not end by itself.
		const isStream = answer.headers.get('content-type')?.startsWith('text/event-stream') ?? false;
		await (isStream ? answer.body?.cancel() : null);
		const text = isStream ? '' : await answer.text();
		return {status: answer.status, headers: answer.headers, text, location: answer.headers.get('location')};
	}

	async function raw(path: string, init: RequestInit): Promise<Seen> {
		const home = isOfWorkspace(path) ? (await exact('/')).location : null;
		const [root = ''] = /^\/w\/[^/]+/.exec(home ?? '') ?? [];
		const seen = await exact(`${root}${path}`, init);
		return {
			...seen,
			text: seen.text.replaceAll(/(?<==")\/w\/[^/"]+(?=\/)/g, ''),
			location: seen.location?.replace(/^\/w\/[^/]+/, '') ?? null,
		};
	}

	const get = (path: string) => raw(path, {});
	return {
		get,
		raw,
		exact,
		async submit(path, fields = {}) {
			if (token.cookies === '' || token.cookies !== cookieHeader()) {
				// Every page has a form: to log out, or to log in.
				const page = await get('/messages');
				const {text} = page.location === null ? page : await get(page.location);
				token = {cookies: cookieHeader(), value: tokenIn(text)};
			}
			const form = new URLSearchParams({_csrf: token.value, ...fields});
			return await raw(path, {method: 'POST', body: form, headers: {origin: url}});
		},
		cookies: () => [...jar].map(([name, value]) => ({name, value})),
	};
}

const segmentOf = (path: string) => path.split(/[/?#]/)[1];
const segments = new Set(routes.filter(one => !one.withoutWorkspace).map(({path}) => segmentOf(path)));
const isOfWorkspace = (path: string) => segments.has(segmentOf(path));

/** The token of the forms of a page. */
export function tokenIn(page: string): string {
	const [, token] = /name="_csrf" value="([^"]+)"/.exec(page) ?? [];
	if (token === undefined) {
		throw new Error(`No form in ${page}`);
	}
	return token;
}
