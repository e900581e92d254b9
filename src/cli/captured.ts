import {existsSync} from 'node:fs';
import {join} from 'node:path';
import {capturedFolder, capturedName} from '../deliver/capture.ts';

/** The file in which a copy was captured, null if it was not. */
export function capturedFile(dataDir: string, copyId: string): string | null {
	const file = join(capturedFolder(dataDir), capturedName(copyId));
	return existsSync(file) ? file : null;
}
