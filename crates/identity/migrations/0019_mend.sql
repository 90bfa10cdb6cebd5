-- How many rotations of a family of refresh tokens must come before one whose answer may be repeated late.
ALTER TABLE refresh_tokens ADD COLUMN late_repeat_after BIGINT NOT NULL DEFAULT 0;
