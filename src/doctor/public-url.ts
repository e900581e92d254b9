import {isLoopbackAddress} from '../mail/public-address.ts';
import {withoutAdvice} from '../mail/tls-words.ts';
import {type Check, type Found, fail, ok, warn} from './finding.ts';

const answerMs = 10_000;

/** Whether links in mail lead here, by https as one-click unsubscribing demands (RFC 8058 §3.1). */
export function publicUrlCheck({
	publicUrl,
	running,
	get = url => fetch(url, {redirect: 'manual', signal: AbortSignal.timeout(answerMs)}),
}: {
	readonly publicUrl: string;
	/** Whether a daemon runs that should answer there. */
	readonly running: boolean;
	readonly get?: (url: string) => Promise<{readonly status: number}>;
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

async function answers(publicUrl: string, get: (url: string) => Promise<{readonly status: number}>): Promise<Found> {
	const url = `${publicUrl.replace(/\/+$/, '')}/healthz`;
	try {
		const {status} = await get(url);
		return status === 200
			? ok(`${url} answers`)
			: fail(`${url} answers ${status}`, 'let the proxy pass requests to MAILCTL_HTTP_LISTEN');
	} catch (error) {
		const {message, cause} = error as Error;
		const reason = withoutAdvice(cause instanceof Error ? cause.message : message);
		return warn(
			`${url} could not be reached from here: ${reason}`,
			'open it in a browser elsewhere; check DNS and proxy',
		);
	}
}
