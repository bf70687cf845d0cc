-- What is searched by stays a column; everything else that is known of an execution is one document, which can gain a
-- field without another migration. `instance` is the daemon that runs it, `kind` tells programs from single calls.
ALTER TABLE executions ADD COLUMN kind TEXT NOT NULL DEFAULT 'program';
ALTER TABLE executions ADD COLUMN instance TEXT NOT NULL DEFAULT '';
ALTER TABLE executions ADD COLUMN document TEXT NOT NULL DEFAULT '{}';
UPDATE executions SET document = json_patch('{}', json_object(
    'code_sha256', code_sha256, 'code_bytes', code_bytes, 'exit_code', exit_code, 'signal', signal,
    'error_code', error_code, 'detail', detail, 'stdout_bytes', stdout_bytes, 'stderr_bytes', stderr_bytes,
    'limits', json(limits), 'timings', json(timings), 'usage', json(usage)
));
ALTER TABLE executions DROP COLUMN code_sha256;
ALTER TABLE executions DROP COLUMN code_bytes;
ALTER TABLE executions DROP COLUMN exit_code;
ALTER TABLE executions DROP COLUMN signal;
ALTER TABLE executions DROP COLUMN error_code;
ALTER TABLE executions DROP COLUMN detail;
ALTER TABLE executions DROP COLUMN stdout_bytes;
ALTER TABLE executions DROP COLUMN stderr_bytes;
ALTER TABLE executions DROP COLUMN limits;
ALTER TABLE executions DROP COLUMN timings;
ALTER TABLE executions DROP COLUMN usage;
