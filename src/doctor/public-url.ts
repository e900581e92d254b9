import {withoutAdvice} from '../mail/tls-result.ts';
import {isLoopbackAddress} from '../net/ip-address.ts';
import {type Check, type Found, fail, ok, warn} from './finding.ts';

const answerMs = 10_000;

type Get = (url: string) => Promise<{readonly status: number; readonly headers: Headers}>;

/** Whether links in mail lead here, by https as one-click unsubscribing demands (RFC 8058 §3.1). */
export function publicUrlCheck({
	publicUrl,
	running,
	get = url => fetch(url, {redirect: 'manual', signal: AbortSignal.timeout(answerMs)}),
}: {
	readonly publicUrl: string;
	/** Whether a daemon runs that should answer there. */
	readonly running: boolean;
	readonly get?: Get;
}): Check {
	return {
		name: 'public-url',
		why: 'Gmail and Yahoo show their unsubscribe button only for https links that work; so do recipients.',
		async look() {
			const {protocol, hostname} = new URL(publicUrl);
			const found: Found[] = [];
			if (hostname === 'localhost' || isLoopbackAddress(hostname.replace(/^\[|\]$/g, ''))) {
				return [fail(`links in mail lead to ${publicUrl}, which is this machine only`, 'set MAILCTL_PUBLIC_URL')];
			}
			if (protocol !== 'https:') {
				found.push(
					warn(`links in mail lead to ${publicUrl}`, 'put an https proxy before it and set MAILCTL_PUBLIC_URL'),
				);
			}
			found.push(running ? await answers(publicUrl, get) : ok(`${publicUrl}; not asked, no daemon runs`));
			return found;
		},
	};
}

/** A proxy may pass nothing but what links and the API need, so the check asks for the page of links, not `/healthz`. */
async function answers(publicUrl: string, get: Get): Promise<Found> {
	const url = `${publicUrl.replace(/\/+$/, '')}/unsubscribe`;
	try {
		const {status, headers} = await get(url);
		// Without a token the page is an error page; the id of the request says that it is ours.
		if (!headers.get('x-request-id')?.startsWith('req_')) {
			return fail(
				`${url} is not answered by mailctl (${status})`,
				'let the proxy pass /unsubscribe to MAILCTL_HTTP_LISTEN',
			);
		}
		return status < 500 ? ok(`${url} answers`) : fail(`${url} answers ${status}`, 'read the log of the daemon');
	} catch (error) {
		const {message, cause} = error as Error;
		const reason = withoutAdvice(cause instanceof Error ? cause.message : message);
		return warn(
			`${url} could not be reached from here: ${reason}`,
			'open it in a browser elsewhere; check DNS and proxy',
		);
	}
}
