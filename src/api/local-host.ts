import {isIP} from 'node:net';
import type {onRequestHookHandler} from 'fastify';
import {apiError} from './errors.ts';

/**
 * Lets requests pass that name the server by an address, `localhost` or `name`; others get 404. A page elsewhere may let its
 * own name lead to 127.0.0.1 (DNS rebinding), and the browser of somebody here then reads for it what is behind that name.
 */
export function localHostGuard(name: string): onRequestHookHandler {
	return ({headers}, _reply, done) => {
		const host = hostOf(headers.host ?? '');
		const isOurs = host === '' || isIP(host) !== 0 || host === 'localhost' || host === name.toLowerCase();
		done(isOurs ? undefined : apiError('not_found', {message: 'Use the address of the admin listener, or localhost.'}));
	};
}

/** Without port and brackets; a client of HTTP/1.0 may name none. */
function hostOf(header: string): string {
	return header
		.toLowerCase()
		.replace(/:\d*$/, '')
		.replace(/^\[(.*)\]$/, '$1')
		.replace(/\.$/, '');
}
