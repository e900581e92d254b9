import type {Socket} from 'node:net';
import type {TLSSocket} from 'node:tls';
import {SMTPServer} from 'smtp-server';
import {SMTPConnection, type SMTPConnectionOptions} from 'smtp-server/lib/smtp-connection';

/** smtp-server, but for two things that have no option. */
export class ReportServer extends SMTPServer {
	override connect(socket: Socket | TLSSocket, options?: SMTPConnectionOptions | null): void {
		const session = new ReportSession(this, socket, options);
		this.connections.add(session);
		session.on('error', error => this.emit('error', error));
		session.init();
		session.connectionReady();
	}
}

const enhancedCode = /^[245]\.\d{1,3}\.\d{1,3} /;

class ReportSession extends SMTPConnection {
	#greeted = false;

	/** Greets at once. The library waits 100 ms, in which a busy host could have brought a report. */
	override connectionReady(next?: () => void): void {
		if (!this.#greeted) {
			this.#greeted = true;
			super.connectionReady(next);
		}
	}

	/** A text of ours brings its enhanced code along; the library knows one for each code. */
	override send(code: number, data?: string | string[] | null, context?: string | false): void {
		super.send(code, data, typeof data === 'string' && enhancedCode.test(data) ? false : context);
	}
}
