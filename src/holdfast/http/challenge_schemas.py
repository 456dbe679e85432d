"""A challenge as ALTCHA's clients read it; the names are theirs."""

from pydantic import BaseModel, ConfigDict, Field

_OUT = ConfigDict(extra="forbid")


class ChallengeFor(BaseModel):
    model_config = _OUT

    sale: str
    buyer: str = Field(description="A mark of the buyer it is for; empty if nobody said who they are.")


class ChallengeParameters(BaseModel):
    model_config = _OUT

    algorithm: str = Field(examples=["PBKDF2/SHA-256"])
    cost: int = Field(description="Rounds of one attempt.")
    keyLength: int  # noqa: N815
    keyPrefix: str = Field(description="How the key begins whose number is sought.")  # noqa: N815
    nonce: str
    salt: str
    keySignature: str  # noqa: N815
    expiresAt: int = Field(description="In seconds since 1970.")  # noqa: N815
    data: ChallengeFor


class ChallengeOut(BaseModel):
    model_config = _OUT

    parameters: ChallengeParameters
    signature: str
